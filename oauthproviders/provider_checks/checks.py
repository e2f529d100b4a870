"""Checks a provider in steps: URLs, discovery document, keys and client credentials.

The steps send the requests of a sign-in, with the same client, limits and deadline.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.diagnostics.registry import CheckOutcome
from authsvc.display_text import short_text
from oauthproviders import registry
from oauthproviders.base import deadline
from oauthproviders.custom import provider
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc.openid_connect import Issuer
from oauthproviders.provider_checks.client import check_client, check_endpoint
from oauthproviders.provider_checks.discovery import check_discovery, check_features
from oauthproviders.provider_checks.provider_requests import Rules, host_of
from oauthproviders.provider_checks.steps import Problem, Step, StepResult, Steps


def check_custom_provider(
    row: CustomProvider, *, sends_secret: bool, actor: audit.Administrator, caller: Caller, at: datetime
) -> list[Step]:
    """Check a custom provider, which may be unsaved, and record it. `sends_secret`: try the client secret too."""
    steps = custom_provider_steps(row, sends_secret=sends_secret)
    _record(row.identifier, row.issuer or row.token_url, steps, actor=actor, caller=caller, at=at)
    return steps


def check_built_in_provider(name: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> list[Step]:
    """Check a built-in provider with its settings, and record it."""
    steps = built_in_provider_steps(name)
    _record(name, None, steps, actor=actor, caller=caller, at=at)
    return steps


@deadline.shared()
def custom_provider_steps(row: CustomProvider, *, sends_secret: bool) -> list[Step]:
    """The steps of the check of a custom provider, which may be unsaved. Sends their requests."""
    steps = Steps()
    rules = Rules(is_custom=True, public_only=provider.is_public_only())
    if row.provider_type == ProviderType.OIDC:
        document = check_discovery(steps, provider.issuer_of(row), rules)
        check_features(steps, document, scopes=row.scopes, pkce=row.pkce_enabled)
        token_url = str(document.get("token_endpoint") or "")
    else:
        check_endpoint(steps, "Authorization endpoint", row.authorization_url or "", rules, is_called=False)
        check_endpoint(steps, "User info endpoint", row.userinfo_url or "", rules, is_called=True)
        token_url = row.token_url or ""
    check_client(steps, token_url, rules, lambda: provider.CustomOAuthProvider.of(row, data={}), sends_secret)
    return steps.results


@deadline.shared()
def built_in_provider_steps(name: str) -> list[Step]:
    """The steps of the check of a built-in provider. Sends their requests."""
    steps = Steps()
    config = conf.current().providers[name]
    if steps.run("Settings", lambda: _check_settings(name, config)) is None:
        return steps.results
    backend: Any = registry.PROVIDERS[name].make(config, data={})
    rules = Rules(is_custom=False, public_only=False)
    issuer = backend.openid_issuer
    if not issuer:
        check_endpoint(steps, "Authorization endpoint", backend.authorization_url(), rules, is_called=False)
        check_endpoint(steps, "Token endpoint", backend.access_token_url(), rules, is_called=True)
        return steps.results
    document = check_discovery(steps, Issuer(name=issuer), rules)
    check_features(steps, document, scopes=backend.scopes(""), pkce=backend.requires_pkce)
    check_client(steps, str(document.get("token_endpoint") or ""), rules, lambda: backend, sends_secret=True)
    return steps.results


def _record(
    name: str,
    address: str | None,
    steps: list[Step],
    *,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> None:
    failed = [step.result.subject for step in steps if step.result.outcome == CheckOutcome.FAILURE]
    traits: dict[str, Any] = {"identifier": name, "result": "failed" if failed else "passed", "failed_steps": failed}
    if host := host_of(address or ""):
        traits["host"] = short_text(host)
    audit.record(audit.Action.PROVIDER_TESTED, actor=actor, caller=caller, at=at, traits=traits)


def _check_settings(name: str, config: conf.Provider) -> StepResult[bool]:
    variable = f"AUTH_EXTERNAL_{name.upper()}"
    if error := registry.configuration_error(name, config):
        raise Problem(error, f"Complete the settings that begin with {variable}_.")
    expected = registry.callback_url()
    if config.redirect_uri != expected:
        remedy = f"Register {expected} with the provider and set {variable}_REDIRECT_URI to it."
        return StepResult(
            value=True, message=f"the redirect URI is {config.redirect_uri}, not {expected}", remedy=remedy
        )
    return StepResult(value=True, message="complete")

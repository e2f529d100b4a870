"""Checks of an OpenID Connect provider: discovery document, keys and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from authsvc.display_text import short_text
from authsvc.outgoing import http
from oauthproviders.oidc import openid_connect
from oauthproviders.oidc.openid_connect import Discovery, Issuer
from oauthproviders.provider_checks.provider_requests import Rules, check_status, check_url, look_up, parse, request
from oauthproviders.provider_checks.steps import (
    MAX_ITEMS,
    SERVER_REMEDY,
    Problem,
    StepResult,
    Steps,
    joined,
    quoted,
)
from tokens.jwt import published_keys

_REQUIRED_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_DISCOVERY_STEPS = (
    "URL", "DNS", "Outgoing rules", "Connection and TLS", "HTTP response", "Discovery document", "Issuer", "Endpoints",
    "Signing algorithms", "Keys", "Client features",
)  # fmt: skip


def check_discovery(steps: Steps, issuer: Issuer, rules: Rules) -> Mapping[str, Any]:
    """Check the discovery document and the keys; returns the document, empty if it cannot be read."""
    url = issuer.discovery_url
    response = _fetch(steps, url, rules, issuer=issuer.name)
    document = None if response is None else steps.run("Discovery document", lambda: _parse_discovery(response))
    if document is None:
        run = {step.result.subject for step in steps.results}
        steps.skip("an earlier step failed", *(name for name in _DISCOVERY_STEPS if name not in run))
        return {}
    typed = msgspec.convert(document, type=Discovery)
    steps.run("Issuer", lambda: _check_issuer(typed, issuer))
    steps.run("Endpoints", lambda: _check_endpoints(typed, issuer, rules))
    algorithms = steps.run("Signing algorithms", lambda: _check_algorithms(typed)) or []
    steps.run("Keys", lambda: _check_keys(typed.jwks_uri, algorithms, rules))
    return document


def _fetch(steps: Steps, url: str, rules: Rules, *, issuer: str) -> http.Response | None:
    """The response to a request, in steps; None if one failed. The rules apply to the issuer too."""

    def check_syntax() -> StepResult[bool]:
        rules.check_syntax(url)
        rules.check_syntax(issuer)
        return StepResult(value=True, message=quoted(url))

    def check_rules() -> StepResult[bool]:
        rules.check_addresses(issuer)
        return StepResult(value=True, message=rules.check_addresses(url))

    def connect() -> StepResult[http.Response]:
        response = request(url, rules)
        is_tls = url.startswith("https:")
        return StepResult(value=response, message="the certificate is valid" if is_tls else "connected, without TLS")

    if (
        steps.run("URL", check_syntax)
        and steps.run("DNS", lambda: look_up(url, rules))
        and steps.run("Outgoing rules", check_rules)
        and (response := steps.run("Connection and TLS", connect))
    ):
        return steps.run("HTTP response", lambda: check_status(response))
    return None


def _parse_discovery(response: http.Response) -> StepResult[dict[str, Any]]:
    document = parse(response, dict[str, Any])
    parse(response, Discovery)
    return StepResult(value=document, message=f"JSON with {len(document)} values")


def _check_issuer(document: Discovery, issuer: Issuer) -> StepResult[bool]:
    if not document.issuer:
        raise Problem("the document names no issuer", SERVER_REMEDY)
    if not openid_connect.is_same_issuer(document.issuer, issuer.name):
        raise Problem(
            f"the document names {quoted(document.issuer)}, but the issuer of the provider is {quoted(issuer.name)}",
            "If this is the expected server, set the issuer to the exact text of the document; a slash at its end"
            " counts.",
        )
    return StepResult(value=True, message=quoted(document.issuer))


def _check_endpoints(document: Discovery, issuer: Issuer, rules: Rules) -> StepResult[bool]:
    problems = [f"{name} is missing" for name in _REQUIRED_ENDPOINTS if not getattr(document, name)]
    names = (*_REQUIRED_ENDPOINTS, "userinfo_endpoint")
    present = {name: url for name in names if (url := getattr(document, name))}
    needs_tls = issuer.discovery_url.startswith("https:")
    for name, url in present.items():
        try:
            if needs_tls or url.startswith("https:"):
                check_url(url, private_allowed=not rules.public_only)
            else:
                rules.check_syntax(url)
        except Problem as problem:
            problems.append(f"{name}: {problem.message}")
    if problems:
        raise Problem("; ".join(problems), SERVER_REMEDY)
    return StepResult(value=True, message="; ".join(f"{name} {quoted(url)}" for name, url in present.items()))


def _check_algorithms(document: Discovery) -> StepResult[list[str]]:
    listed = document.id_token_signing_alg_values_supported
    offered = listed or ("RS256",)
    usable = [name for name in offered if name in published_keys.ALGORITHMS]
    if not usable:
        raise Problem(
            f"the provider signs ID tokens with {joined(offered)} only",
            f"Select one of these at the provider: {', '.join(sorted(published_keys.ALGORITHMS))}.",
        )
    rest = [name for name in offered if name not in usable]
    message = joined(usable) + (f"; never accepted: {joined(rest)}" if rest else "")
    return StepResult(value=usable, message=message if listed else "none listed, so RS256 applies")


def _check_keys(url: str, algorithms: list[str], rules: Rules) -> StepResult[bool]:
    if not url:
        raise Problem("the document has no jwks_uri", SERVER_REMEDY)
    rules.check(url)
    keys = parse(check_status(request(url, rules)).value, dict[str, Any]).get("keys")
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise Problem("the document has no list of keys", SERVER_REMEDY)
    described = []
    has_usable = False
    for key in keys[:MAX_ITEMS]:
        usable = published_keys.usable_algorithms(key, algorithms)
        has_usable = has_usable or bool(usable)
        name = f"{quoted(key.get('kid') or 'no key ID')} ({short_text(key.get('kty'))})"
        described.append(f"{name} for {', '.join(usable)}" if usable else f"{name} not usable")
    message = f"{len(keys)} {'key' if len(keys) == 1 else 'keys'}: {'; '.join(described)}"
    if not has_usable:
        raise Problem(
            f"no key verifies a signature by {joined(algorithms) or 'a supported algorithm'}; {message}",
            "Publish a signing key at the provider.",
        )
    return StepResult(value=True, message=message)


def check_features(steps: Steps, document: Mapping[str, Any], *, scopes: list[str], pkce: bool) -> None:
    """Compare the lists of the discovery document with the requests of this service; absent lists are permitted."""

    def check() -> StepResult[bool]:
        methods = _texts(document, "token_endpoint_auth_methods_supported")
        if methods and not {"client_secret_basic", "client_secret_post"} & set(methods):
            raise Problem(
                f"the token endpoint supports only {joined(methods)}",
                "Select authentication by client secret (client_secret_basic or client_secret_post) at the provider.",
            )
        types = _texts(document, "response_types_supported")
        if types and "code" not in types:
            raise Problem(
                f"the provider supports only {joined(types)}", "Enable the authorization code flow at the provider."
            )
        problems = []
        offered = _texts(document, "scopes_supported")
        unknown = [scope for scope in scopes if offered and scope not in offered]
        if unknown:
            problems.append(f"the provider does not list the scopes {joined(unknown)}, only {joined(offered)}")
        challenges = _texts(document, "code_challenge_methods_supported")
        if pkce and challenges and "S256" not in challenges:
            problems.append("the provider does not list PKCE by S256")
        if problems:
            remedy = "Compare the scopes and PKCE with the documents of the provider."
            return StepResult(value=True, message="; ".join(problems), remedy=remedy)
        return StepResult(value=True, message="authorization code, client secret, scopes and PKCE fit")

    if document:
        steps.run("Client features", check)


def _texts(document: Mapping[str, Any], key: str) -> list[str]:
    values = document.get(key)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []

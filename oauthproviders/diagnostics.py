"""Doctor checks of providers: complete settings and reachable servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import DatabaseError

from authsvc import conf
from authsvc.diagnostics.registry import CheckOutcome, CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.errors import ApiError
from authsvc.outgoing import http
from oauthproviders import provider_checks, registry
from oauthproviders.models import CustomProvider

_TIMEOUT = timedelta(seconds=10)
_MAX_BYTES = 65_536


class ProviderDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        enabled = {name: config for name, config in conf.current().providers.items() if config.enabled}
        if not enabled:
            yield unused("providers", "no built-in provider is enabled")
        for name, config in enabled.items():
            yield from _check_built_in(name, config)
        yield from _check_custom()


def _check_built_in(name: str, config: conf.Provider) -> Iterator[CheckResult]:
    subject, setting = f"provider {name}", f"AUTH_EXTERNAL_{name.upper()}"
    if reason := registry.configuration_error(name, config):
        yield failure(subject, reason, f"Complete the settings that begin with {setting}_.")
        return
    callback = registry.callback_url()
    if config.redirect_uri != callback:
        remedy = f"Register {callback} with the provider and set {setting}_REDIRECT_URI to it."
        yield warning(subject, f"the redirect URI is {config.redirect_uri}, not {callback}", remedy)
    remedy = f"Check {setting}_URL and that this host can connect to it."
    backend: Any = registry.PROVIDERS[name].make(config, data={})
    try:
        url = backend.authorization_url()
    except ApiError as error:
        yield failure(subject, error.message, remedy)
    else:
        yield _check_reachable(subject, url, remedy)


def _check_custom() -> Iterator[CheckResult]:
    try:
        rows = list(CustomProvider.objects.filter(enabled=True)) if conf.current().custom_providers.enabled else []
    except DatabaseError:
        return  # reported by DatabaseDiagnostic
    for row in rows:
        subject = f"provider {row.identifier}"
        steps = [step.result for step in provider_checks.custom_provider_steps(row, sends_secret=False)]
        problems = [step for step in steps if step.outcome in (CheckOutcome.FAILURE, CheckOutcome.WARNING)]
        for problem in problems:
            yield replace(problem, subject=subject, message=f"{problem.subject}: {problem.message}")
        if not problems:
            checked = [step.subject for step in steps if step.outcome == CheckOutcome.OK]
            yield ok(subject, f"{len(checked)} steps pass: {', '.join(checked)}")


def _check_reachable(subject: str, url: str, remedy: str) -> CheckResult:
    host = urlsplit(url).hostname or ""
    try:
        # The request has no parameters, so any status below 500 shows that the server is reachable.
        response = http.send("GET", url, timeout=_TIMEOUT, max_bytes=_MAX_BYTES, truncate=True)
    except http.Unreachable as error:
        return failure(subject, f"{host} cannot be reached: {error}", remedy)
    if response.status >= 500:
        return warning(subject, f"{host} answers with status {response.status}", "Try again later.")
    return ok(subject, f"{host} answers")

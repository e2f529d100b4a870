"""What `manage.py doctor` finds out about sign-in through others: complete settings, and servers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import DatabaseError

from authsvc import conf
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.errors import ApiError
from authsvc.outgoing import http
from oauthproviders import registry
from oauthproviders.custom import provider
from oauthproviders.models import CustomProvider
from oauthproviders.oidc import openid_connect

_TIMEOUT = timedelta(seconds=10)
_MOST = 65_536


class ProviderDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        enabled = {name: config for name, config in conf.current().providers.items() if config.enabled}
        if not enabled:
            yield unused("providers", "none of the list is switched on")
        for name, config in enabled.items():
            yield from _listed(name, config)
        yield from _custom()


def _listed(name: str, config: conf.Provider) -> Iterator[CheckResult]:
    subject, setting = f"provider {name}", f"AUTH_EXTERNAL_{name.upper()}"
    if fault := registry.fault_of(name, config):
        yield failure(subject, fault, f"Complete the settings that begin with {setting}_.")
        return
    callback = f"{conf.current().api.external_url.rstrip('/')}/callback"
    if config.redirect_uri != callback:
        remedy = f"Register {callback} there and set {setting}_REDIRECT_URI to it, unless another way leads here."
        yield warning(subject, f"people come back to {config.redirect_uri}, not to {callback}", remedy)
    remedy = f"Check {setting}_URL and that this host may go there."
    made: Any = registry.PROVIDERS[name].make(config, data={})
    try:
        url = made.authorization_url()
    except ApiError as error:
        yield failure(subject, error.message, remedy)
    else:
        yield _reached(subject, url, remedy)


def _custom() -> Iterator[CheckResult]:
    try:
        rows = list(CustomProvider.objects.filter(enabled=True)) if conf.current().custom_providers.enabled else []
    except DatabaseError:
        return  # which the diagnostic of the database tells
    for row in rows:
        subject = f"provider {row.identifier}"
        if not row.issuer:
            yield ok(subject, "has its addresses from an administrator; they are tried when somebody signs in")
            continue
        try:
            openid_connect.discover(provider.issuer_of(row))
        except ApiError as error:
            yield failure(subject, error.message, "Check its issuer, and that this host may go there.")
        else:
            yield ok(subject, "its discovery document can be read")


def _reached(subject: str, url: str, remedy: str) -> CheckResult:
    host = urlsplit(url).hostname or ""
    try:
        # Without parameters: any answer but a failure of the server tells that it is there.
        reply = http.send("GET", url, timeout=_TIMEOUT, max_bytes=_MOST, truncate=True)
    except http.Unreachable as error:
        return failure(subject, f"{host} cannot be reached: {error}", remedy)
    if reply.status >= 500:
        return warning(subject, f"{host} answers with status {reply.status}", "Try again later.")
    return ok(subject, f"{host} answers")

"""Proxy checks of `manage.py doctor`: TLS, clock and client addresses at the public URL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from django.utils import timezone

from authsvc.diagnostics import proxy_echo
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.outgoing import http

_TIMEOUT = timedelta(seconds=10)
_MAX_BYTES = 65_536
_MAX_SKEW = timedelta(seconds=30)
# Addresses reserved for documentation (RFC 5737), so they are never real client addresses.
_FORGED, _FORGED_UNDERSCORE = "192.0.2.77", "198.51.100.77"
_REMEDIES = {
    "X-Forwarded-For": "Configure the proxy to append the client's address or replace the header.",
    "X_Forwarded_For": "Configure the proxy to drop headers with underscores (nginx: underscores_in_headers off).",
}


class ProxyDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        url = context.public_url.rstrip("/")
        if not url:
            yield unused("proxy", "not checked", "Pass --url with the public address of the running service.")
            return
        try:
            health = http.send("GET", f"{url}/health", timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
            echo = _request_echo(url, {})
            forged_echo = _request_echo(url, {"X-Forwarded-For": _FORGED})
            underscore_echo = _request_echo(url, {"X_Forwarded_For": _FORGED_UNDERSCORE})
            svc_echo = _request_echo(url, {"Svc-Forwarded-For": _FORGED})
        except http.Unreachable as error:
            yield failure("proxy", f"{url}: {error}", "Check the host name, the certificate, and that the proxy runs.")
            return
        except ValueError:
            remedy = "Check that the proxy leads to this service and that this command has the service's settings."
            yield failure("proxy", f"{url}/health is not answered by this service", remedy)
            return
        yield _check_tls(url)
        yield from _check_clock(health.headers.get("Date", ""))
        yield _check_address(echo)
        yield _check_forgery("X-Forwarded-For", _FORGED, echo, forged_echo)
        yield _check_forgery("X_Forwarded_For", _FORGED_UNDERSCORE, echo, underscore_echo)
        if svc_echo["address"] == _FORGED:
            remedy = "Configure the proxy to drop it, or set AUTH_SECURITY_FORWARDED_FOR_ENABLED=false."
            yield failure("client address", "clients can forge it with Svc-Forwarded-For", remedy)


def _request_echo(url: str, headers: dict[str, str]) -> dict[str, str]:
    """The request as the service receives it. Raises http.Unreachable, and ValueError without a proxy echo."""
    sent = {**headers, proxy_echo.HEADER: proxy_echo.signed_token()}
    response = http.send("GET", f"{url}/health", timeout=_TIMEOUT, max_bytes=_MAX_BYTES, headers=sent)
    document: Any = response.json()
    echo: dict[str, str] | None = document.get("request") if isinstance(document, dict) else None
    if echo is None:
        raise ValueError("no proxy echo")
    return echo


def _check_tls(url: str) -> CheckResult:
    if url.startswith("https:"):
        return ok("proxy", f"{url} answers over TLS")
    return warning(
        "proxy", f"{url} answers without TLS", "Configure a certificate at the proxy; see the deployment guide."
    )


def _check_clock(date: str) -> Iterator[CheckResult]:
    try:
        skew = abs(timezone.now() - parsedate_to_datetime(date))
    except ValueError:
        return
    if skew > _MAX_SKEW:
        message = f"{skew.total_seconds():.0f} s apart from the proxy's clock"
        yield failure("clock", message, "Synchronize both clocks with NTP (chrony, timesyncd).")
    else:
        yield ok("clock", "agrees with the proxy's clock")


def _check_address(echo: dict[str, str]) -> CheckResult:
    message = f"requests of this host have the client address {echo['address'] or 'of a local socket'}"
    if echo["forwarded_for"] and echo["address"] == echo["peer"]:
        if echo["forwarded_for"].rpartition(",")[2].strip() == echo["peer"]:
            message = "this is the host of the proxy, so the use of X-Forwarded-For cannot be checked"
            return warning("client address", message, "Run this command on another host.")
        remedy = f"If {echo['peer']} is your proxy, add it to AUTH_TRUSTED_PROXIES: now all clients have its address."
        return warning("client address", f"{message}, and X-Forwarded-For is ignored", remedy)
    if not echo["forwarded_for"]:
        remedy = "Configure the proxy to set X-Forwarded-For: now all clients have its address."
        return warning("client address", f"{message}, and there is no X-Forwarded-For", remedy)
    return ok("client address", message)


def _check_forgery(header: str, forged_address: str, echo: dict[str, str], forged_echo: dict[str, str]) -> CheckResult:
    if forged_echo["address"] != forged_address:
        return ok("client address", f"clients cannot forge it with {header}")
    if not echo["forwarded_for"] or forged_echo["forwarded_for"].rpartition(",")[2].strip() != forged_address:
        message = f"this host is a trusted proxy, so a forged {header} cannot be checked"
        return warning("client address", message, "Run this command on a host outside of AUTH_TRUSTED_PROXIES.")
    return failure("client address", f"clients can forge it with {header}", _REMEDIES[header])

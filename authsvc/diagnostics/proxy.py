"""What `manage.py doctor` finds out about the way from the public address to the service: TLS and client addresses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from authsvc import clock
from authsvc.diagnostics import proxy_echo
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, unused, warning
from authsvc.outgoing import http

_TIMEOUT = timedelta(seconds=10)
_MOST = 65_536
_MOST_SKEW = timedelta(seconds=30)
# From blocks that nobody has (RFC 5737), so they cannot be anybody's real address.
_FORGED, _FORGED_TWIN = "192.0.2.77", "198.51.100.77"
_REMEDIES = {
    "X-Forwarded-For": "Let the proxy append the client's address or replace the header.",
    "X_Forwarded_For": "Let the proxy drop headers with underscores (nginx: underscores_in_headers off).",
}


class ProxyDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        url = context.public_url.rstrip("/")
        if not url:
            yield unused("proxy", "not looked at", "Pass --url with the public address of the running service.")
            return
        try:
            plain = http.send("GET", f"{url}/health", timeout=_TIMEOUT, max_bytes=_MOST)
            seen = _image(url, {})
            forged = _image(url, {"X-Forwarded-For": _FORGED})
            twin = _image(url, {"X_Forwarded_For": _FORGED_TWIN})
            announced = _image(url, {"Svc-Forwarded-For": _FORGED})
        except http.Unreachable as error:
            yield failure("proxy", f"{url}: {error}", "Check the name, the certificate and that the proxy runs.")
            return
        except ValueError:
            remedy = "Check that the proxy leads to this service and that this command has the service's settings."
            yield failure("proxy", f"{url}/health answers as somebody else", remedy)
            return
        yield _encrypted(url)
        yield from _time(plain.headers.get("Date", ""))
        yield _address(seen)
        yield _forgery("X-Forwarded-For", _FORGED, seen, forged)
        yield _forgery("X_Forwarded_For", _FORGED_TWIN, seen, twin)
        if announced["address"] == _FORGED:
            remedy = "Let the proxy drop it, or set AUTH_SECURITY_FORWARDED_FOR_ENABLED=false."
            yield failure("client address", "a client can choose its own by Svc-Forwarded-For", remedy)


def _image(url: str, headers: dict[str, str]) -> dict[str, str]:
    """A request as the service sees it. Raises http.Unreachable, ValueError when no mirror answers."""
    sent = {**headers, proxy_echo.HEADER: proxy_echo.ticket()}
    reply = http.send("GET", f"{url}/health", timeout=_TIMEOUT, max_bytes=_MOST, headers=sent)
    document: Any = reply.json()
    found: dict[str, str] | None = document.get("request") if isinstance(document, dict) else None
    if found is None:
        raise ValueError("no mirror")
    return found


def _encrypted(url: str) -> CheckResult:
    if url.startswith("https:"):
        return ok("proxy", f"{url} answers over TLS")
    return warning("proxy", f"{url} answers without TLS", "Give the proxy a certificate; see the guide on deploying.")


def _time(date: str) -> Iterator[CheckResult]:
    try:
        skew = abs(clock.now() - parsedate_to_datetime(date))
    except ValueError:
        return
    if skew > _MOST_SKEW:
        message = f"{skew.total_seconds():.0f} s apart from the proxy's"
        yield failure("clock", message, "Keep both clocks by NTP (chrony, timesyncd).")
    else:
        yield ok("clock", "agrees with the proxy's")


def _address(seen: dict[str, str]) -> CheckResult:
    message = f"a request of this host counts as one of {seen['address'] or 'a local socket'}"
    if seen["forwarded_for"] and seen["address"] == seen["peer"]:
        if seen["forwarded_for"].rpartition(",")[2].strip() == seen["peer"]:
            message = "whether X-Forwarded-For is believed cannot be seen from here, the host of the proxy"
            return warning("client address", message, "Run this from another host.")
        remedy = f"If {seen['peer']} is your proxy, put it into AUTH_TRUSTED_PROXIES: every client looks the same now."
        return warning("client address", f"{message}, and X-Forwarded-For is not believed", remedy)
    if not seen["forwarded_for"]:
        remedy = "Where a proxy stands in front, let it set X-Forwarded-For: every client looks the same now."
        return warning("client address", f"{message}, and no X-Forwarded-For comes with it", remedy)
    return ok("client address", message)


def _forgery(header: str, forged: str, seen: dict[str, str], found: dict[str, str]) -> CheckResult:
    if found["address"] != forged:
        return ok("client address", f"a client cannot choose its own by {header}")
    if not seen["forwarded_for"] or found["forwarded_for"].rpartition(",")[2].strip() != forged:
        message = f"this host is a trusted proxy, so the check for a forged {header} says nothing"
        return warning("client address", message, "Run this from a host outside of AUTH_TRUSTED_PROXIES.")
    return failure("client address", f"a client can choose its own by {header}", _REMEDIES[header])

"""Returns a request as it arrived at the service, so that `manage.py doctor` can check the proxy."""

from __future__ import annotations

from django.core import signing
from django.http import HttpRequest

from authsvc.caller import client_address

HEADER = "Authsvc-Mirror"
_SALT = "authsvc.proxy_echo"
_SECONDS = 60


def signed_token() -> str:
    """The value of the header, valid for one minute."""
    return signing.TimestampSigner(salt=_SALT).sign("show")


def is_requested(request: HttpRequest) -> bool:
    """True if the request has a token signed with the service's settings within the last minute."""
    text = request.META.get("HTTP_AUTHSVC_MIRROR", "")
    if not text:
        return False
    try:
        signing.TimestampSigner(salt=_SALT).unsign(text, max_age=_SECONDS)
    except signing.BadSignature:
        return False
    return True


def echo(request: HttpRequest) -> dict[str, str]:
    """The connection's peer, the resolved client address, and the headers that proxies set."""
    meta = request.META
    return {
        "peer": meta.get("REMOTE_ADDR", ""),
        "address": client_address(request),
        "forwarded_for": meta.get("HTTP_X_FORWARDED_FOR", ""),
        "svc_forwarded_for": meta.get("HTTP_SVC_FORWARDED_FOR", ""),
        "host": meta.get("HTTP_HOST", ""),
    }

"""Shows somebody who has the settings a request as it has arrived: `manage.py doctor` sees by it what a proxy does."""

from __future__ import annotations

from django.core import signing
from django.http import HttpRequest

from authsvc.api import callers

HEADER = "Authsvc-Mirror"
_SALT = "authsvc.mirror"
_SECONDS = 60


def ticket() -> str:
    """What the header must hold; good for a minute."""
    return signing.TimestampSigner(salt=_SALT).sign("show")


def is_asked(request: HttpRequest) -> bool:
    """Whether the request has a ticket that somebody with our settings has made within the last minute."""
    text = request.META.get("HTTP_AUTHSVC_MIRROR", "")
    if not text:
        return False
    try:
        signing.TimestampSigner(salt=_SALT).unsign(text, max_age=_SECONDS)
    except signing.BadSignature:
        return False
    return True


def image(request: HttpRequest) -> dict[str, str]:
    """The peer of the connection, the address that the service goes by, and what else proxies write."""
    meta = request.META
    return {
        "peer": meta.get("REMOTE_ADDR", ""),
        "address": callers.client_address(request),
        "forwarded_for": meta.get("HTTP_X_FORWARDED_FOR", ""),
        "svc_forwarded_for": meta.get("HTTP_SVC_FORWARDED_FOR", ""),
        "host": meta.get("HTTP_HOST", ""),
    }

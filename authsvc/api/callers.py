"""Builds the `Caller` of a request."""

from __future__ import annotations

from django.http import HttpRequest

from authsvc import conf
from authsvc.api import client_ip
from authsvc.caller import Caller
from authsvc.errors import ValidationFailed

_ADDRESS = "authsvc.address"
_MAX_AUDIENCE_LENGTH = 255


def client_address(request: HttpRequest) -> str:
    """The client IP address in canonical form; computed once per request."""
    address: str | None = request.META.get(_ADDRESS)
    if address is None:
        meta = request.META
        address = meta[_ADDRESS] = client_ip.resolve(
            peer=meta.get("REMOTE_ADDR", ""),
            forwarded_for=meta.get("HTTP_X_FORWARDED_FOR"),
            svc_forwarded_for=meta.get("HTTP_SVC_FORWARDED_FOR"),
        )
    return address


def caller_of(request: HttpRequest) -> Caller:
    """The Caller of a request. Raises ValidationFailed for an audience longer than 255 characters."""
    meta = request.META
    audience = meta.get("HTTP_X_JWT_AUD") or conf.current().jwt.aud
    if len(audience) > _MAX_AUDIENCE_LENGTH:
        raise ValidationFailed("The audience is too long")
    return Caller(
        address=client_address(request),
        user_agent=meta.get("HTTP_USER_AGENT", ""),
        request_id=meta["authsvc.request_id"],
        audience=audience,
        link_base=_link_base(request),
        authorization=meta.get("HTTP_AUTHORIZATION", ""),
    )


def _link_base(request: HttpRequest) -> str:
    """The URL of the host that the client used, if AUTH_MAILER_EXTERNAL_HOSTS lists it, else the external URL."""
    hosts = conf.current().mailer.external_hosts
    if not hosts:
        return conf.current().api.external_url
    host = request.META.get("HTTP_X_FORWARDED_HOST") or request.META.get("HTTP_HOST", "").rsplit(":", 1)[0]
    if host not in hosts:
        return conf.current().api.external_url
    is_http = host == "localhost" and "http" in (request.META.get("HTTP_X_FORWARDED_PROTO"), request.scheme)
    return f"{'http' if is_http else 'https'}://{host}"

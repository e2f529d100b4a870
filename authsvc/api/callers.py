"""Makes the `Caller` of a request, once."""

from __future__ import annotations

from django.http import HttpRequest

from authsvc import conf
from authsvc.api import client_ip
from authsvc.caller import Caller
from authsvc.errors import ValidationFailed

_ADDRESS = "authsvc.address"
_LONGEST_AUDIENCE = 255


def client_address(request: HttpRequest) -> str:
    """The client's address, in canonical form."""
    known: str | None = request.META.get(_ADDRESS)
    if known is None:
        meta = request.META
        known = meta[_ADDRESS] = client_ip.resolve(
            peer=meta.get("REMOTE_ADDR", ""),
            forwarded_for=meta.get("HTTP_X_FORWARDED_FOR"),
            svc_forwarded_for=meta.get("HTTP_SVC_FORWARDED_FOR"),
        )
    return known


def caller_of(request: HttpRequest) -> Caller:
    """Raises ValidationFailed for an audience that no account could be kept in."""
    meta = request.META
    audience = meta.get("HTTP_X_JWT_AUD") or conf.current().jwt.aud
    if len(audience) > _LONGEST_AUDIENCE:
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
    """The host the client used, when it is one the operator listed; else the configured external address."""
    hosts = conf.current().mailer.external_hosts
    if not hosts:
        return conf.current().api.external_url
    host = request.META.get("HTTP_X_FORWARDED_HOST") or request.META.get("HTTP_HOST", "").rsplit(":", 1)[0]
    if host not in hosts:
        return conf.current().api.external_url
    plain = host == "localhost" and "http" in (request.META.get("HTTP_X_FORWARDED_PROTO"), request.scheme)
    return f"{'http' if plain else 'https'}://{host}"

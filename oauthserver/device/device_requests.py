"""Starts the request of a device (RFC 8628 §3.1, §3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from uuid import uuid4

from authsvc import conf
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import UnexpectedFailure
from authsvc.security import crypto
from oauthserver.authorization import authorization_requests
from oauthserver.authorization.authorization_requests import RequestRefused
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.device import user_codes
from oauthserver.errors import DeviceRequestRefused
from oauthserver.models import OAuthClient
from tokens.jwt import signing_keys

POLL_INTERVAL = 5
"""Seconds between two polls; each poll that comes too early adds as many (RFC 8628 §3.5)."""
_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedDeviceRequest:
    """The codes of a new request, which are known only now."""

    device_code: str = field(repr=False)
    user_code: str = field(repr=False)
    """As users see it."""
    verification_uri: str
    expires_in: int
    """Seconds."""

    @property
    def verification_uri_complete(self) -> str:
        """The page with the code, for a QR code. The user still compares and confirms the code."""
        return f"{self.verification_uri}?user_code={self.user_code}"


def start(request: ClientRequest, *, client: OAuthClient, at: datetime) -> StartedDeviceRequest:
    """Store the request of a device. One statement. Raises DeviceRequestRefused."""
    if not conf.current().pages.enabled:
        raise DeviceRequestRefused("server_error", "the page at which users enter codes is not enabled")
    try:
        scope = authorization_requests.parse_scope(request.get("scope"))
        authorization_requests.check_resource(request.get("resource"))
        max_age = authorization_requests.parse_max_age(request.get("max_age"))
        texts = {name: request.get(name) for name in ("resource", "acr_values")}
        authorization_requests.check_lengths({**texts, "scope": scope})
    except RequestRefused as error:
        raise DeviceRequestRefused(error.error, error.description) from None
    ttl = conf.current().oauth_server.authorization_ttl
    device_code = crypto.generate_key()
    for _ in range(_MAX_ATTEMPTS):
        user_code = user_codes.generate()
        values = {
            "id": uuid4(),
            "device_code_hash": crypto.hash_auth_code(device_code),
            "user_code_hash": user_codes.hash_code(user_code),
            "client_id": client.id,
            "scope": scope,
            "max_age": max_age,
            "poll_interval": POLL_INTERVAL,
            "created_at": at,
            "expires_at": at + ttl,
            **{name: text or None for name, text in texts.items()},
        }
        if fetch_row(_insert_sql(), values) is not None:
            break
    else:
        raise UnexpectedFailure("No free user code")
    return StartedDeviceRequest(
        device_code=device_code,
        user_code=user_codes.render(user_code),
        verification_uri=f"{signing_keys.issuer_base()}/oauth/device",
        expires_in=int(ttl.total_seconds()),
    )


@cache
def _insert_sql() -> str:
    """Insert no row if another request has the user code."""
    return f"""
        INSERT INTO {namespaced("oauth_device_authorizations")} (id, device_code_hash, user_code_hash, client_id, scope,
            resource, max_age, acr_values, poll_interval, created_at, expires_at)
        VALUES (%(id)s, %(device_code_hash)s, %(user_code_hash)s, %(client_id)s, %(scope)s, %(resource)s, %(max_age)s,
            %(acr_values)s, %(poll_interval)s, %(created_at)s, %(expires_at)s)
        ON CONFLICT (user_code_hash) DO NOTHING RETURNING id
    """  # noqa: S608  (own table name)

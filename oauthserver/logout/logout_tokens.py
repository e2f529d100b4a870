"""Logout tokens for clients whose session of a user has ended (OpenID Connect Back-Channel Logout 1.0).

A trigger of the database queues a job for each such session of a client with a `backchannel_logout_uri`. `sid` is the
id of the client's session, as in its ID tokens, so that two clients cannot compare the sessions of a user.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta
from enum import Enum, auto
from uuid import UUID, uuid4

from django.utils import timezone

from authsvc import conf
from authsvc.outgoing import http
from authsvc.outgoing.http import Unreachable
from oauthserver import scopes
from oauthserver.clients import clients
from oauthserver.models import OAuthClient, RegistrationType
from tokens.jwt import signing_keys

TOKEN_TYPE = "logout+jwt"
EVENT = "http://schemas.openid.net/event/backchannel-logout"
LIFETIME = timedelta(minutes=2)
_TIMEOUT = timedelta(seconds=5)
_MAX_RESPONSE_BYTES = 4_096
_TEMPORARY = frozenset({408, 425, 429})
_SERVER_ERRORS = 500
_SLOW_SECONDS = 1.0
_PAUSE_SECONDS = 15.0
"""Without another call to a client after a slow failure: a worker runs one job at a time, and thousands may wait."""
_MAX_PAUSES = 256
paused_until: dict[UUID, float] = {}
"""Client → value of the clock, in this process."""

logger = logging.getLogger(__name__)


class LogoutTokenOutcome(Enum):
    DELIVERED = auto()
    NOT_NEEDED = auto()
    """The client is deleted, or no longer receives logout tokens."""
    REFUSED = auto()
    """The client answers that it cannot log the user out; the same token would be refused again."""
    UNREACHABLE = auto()


def send(*, client_id: UUID, user_id: UUID, session_id: UUID) -> LogoutTokenOutcome:
    """Send a new logout token to a client. One statement, outside a transaction.

    After a call that failed slowly, the client counts as unreachable for `_PAUSE_SECONDS`.
    """
    client = clients.find_existing(client_id)
    is_possible = conf.current().oauth_server.enabled and scopes.can_issue_id_tokens()
    if client is None or not client.backchannel_logout_uri or not is_possible:
        return LogoutTokenOutcome.NOT_NEEDED
    started = time.monotonic()
    if started < paused_until.get(client_id, started):
        return LogoutTokenOutcome.UNREACHABLE
    token = issue(client_id=client_id, user_id=user_id, session_id=session_id, at=timezone.now())
    outcome = _deliver(client, token)
    if outcome is LogoutTokenOutcome.UNREACHABLE and time.monotonic() - started >= _SLOW_SECONDS:
        _pause(client_id)
    return outcome


def _deliver(client: OAuthClient, token: str) -> LogoutTokenOutcome:
    try:
        response = _post(client, token)
    except Unreachable as error:
        _log(client, str(error))
        return LogoutTokenOutcome.UNREACHABLE
    if 200 <= response.status < 300:
        return LogoutTokenOutcome.DELIVERED
    _log(client, f"status {response.status}")
    is_temporary = response.status >= _SERVER_ERRORS or response.status in _TEMPORARY
    return LogoutTokenOutcome.UNREACHABLE if is_temporary else LogoutTokenOutcome.REFUSED


def issue(*, client_id: UUID, user_id: UUID, session_id: UUID, at: datetime) -> str:
    """A logout token (§2.4). `client_id` keeps it from being taken for an access token, as in ID tokens."""
    issued_at = int(at.timestamp())
    content = {
        "iss": signing_keys.issuer(),
        "sub": str(user_id),
        "aud": str(client_id),
        "client_id": str(client_id),
        "iat": issued_at,
        "exp": issued_at + int(LIFETIME.total_seconds()),
        "jti": str(uuid4()),
        "sid": str(session_id),
        "events": {EVENT: {}},
    }
    return signing_keys.current().signing.encode(content, token_type=TOKEN_TYPE)


def _post(client: OAuthClient, token: str) -> http.Response:
    """Follow no redirect, which could lead the token elsewhere. Raises Unreachable."""
    return http.send(
        "POST",
        client.backchannel_logout_uri or "",
        timeout=min(_TIMEOUT, conf.current().api.internal_http_timeout),
        max_bytes=_MAX_RESPONSE_BYTES,
        form={"logout_token": token},
        truncate=True,
        # No administrator has seen the URL of a client that has registered itself.
        public_only=client.registration_type == RegistrationType.DYNAMIC,
    )


def _pause(client_id: UUID) -> None:
    if len(paused_until) >= _MAX_PAUSES:
        paused_until.clear()
    paused_until[client_id] = time.monotonic() + _PAUSE_SECONDS


def _log(client: OAuthClient, reason: str) -> None:
    fields = {"event": "oauth.backchannel_logout", "client_id": str(client.id), "reason": reason}
    logger.warning("a client did not accept a logout token", extra=fields)

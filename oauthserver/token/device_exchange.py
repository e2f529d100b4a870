"""Exchanges a device code for a session of the client, once the user has approved (RFC 8628 §3.4, §3.5)."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import NamedTuple
from uuid import UUID, uuid4

from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.security import crypto
from oauthserver import resources
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.device.device_requests import POLL_INTERVAL
from oauthserver.errors import DeviceCodeNotExchanged, InvalidGrant, TokenRequestInvalid
from oauthserver.models import AuthorizationStatus, OAuthClient
from oauthserver.token import client_sessions
from oauthserver.token.client_sessions import ApprovedAccess, ClientSession
from tokens.sessions import revocation, sign_in_metrics
from tokens.sessions.issuing import token_transaction

_GRANT = "device_code"
_ERRORS = {
    "slow_down": f"The device polls too often; the interval is now {POLL_INTERVAL} seconds longer",
    "authorization_pending": "The user has not decided yet",
    "access_denied": "The user denied the request",
    "expired_token": "The device code has expired",
}


class _Polled(NamedTuple):
    """The request, as it was before the poll."""

    status: str
    is_exchanged: bool
    """This poll exchanges it."""
    is_too_early: bool
    user_id: UUID | None
    scope: str
    resource: str | None
    acr_values: str | None
    aal: str | None
    authenticated_at: datetime | None
    session_id: UUID | None
    expires_at: datetime


@sign_in_metrics.measure_sign_in("oauth_provider", user_id=lambda session: session.user.id)
def exchange(request: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> ClientSession:
    """Exchange a device code. Five statements, and one before the decision of the user.

    A device code that was exchanged before ends the session that it gave. Raises TokenRequestInvalid, InvalidGrant,
    DeviceCodeNotExchanged, OwnerBanned.
    """
    device_code = request.get("device_code")
    if not device_code:
        raise TokenRequestInvalid("device_code is required for device_code grant")
    session_id = uuid4()
    values = {
        "digest": crypto.hash_auth_code(device_code),
        "client_id": client.id,
        "session_id": session_id,
        "at": at,
        "slow_down": POLL_INTERVAL,
    }
    with token_transaction(caller):
        row = fetch_row(_poll_sql(), values)
        if row is None:
            raise InvalidGrant("Invalid device code")
        polled = _Polled(*row)
        if polled.is_exchanged:
            resource = request.get("resource")
            if not resources.covers(polled.resource, resource):
                raise InvalidGrant("Device code resource does not match the resource parameter")
            return _start_session(
                polled, requested_resource=resource, client=client, session_id=session_id, caller=caller, at=at
            )
    if polled.status == AuthorizationStatus.EXCHANGED:
        if polled.session_id is not None:
            revocation.revoke_session(polled.session_id, reason="oauth_grant_revoked")
        raise InvalidGrant("Invalid device code")
    raise _refusal(polled, at=at)


def _refusal(polled: _Polled, *, at: datetime) -> DeviceCodeNotExchanged:
    if polled.status == AuthorizationStatus.DENIED:
        error = "access_denied"
    elif at > polled.expires_at:
        error = "expired_token"
    else:
        error = "slow_down" if polled.is_too_early else "authorization_pending"
    return DeviceCodeNotExchanged(error, _ERRORS[error])


def _start_session(
    polled: _Polled, *, requested_resource: str, client: OAuthClient, session_id: UUID, caller: Caller, at: datetime
) -> ClientSession:
    access = ApprovedAccess(
        user_id=polled.user_id,
        scope=polled.scope,
        resource=polled.resource,
        requested_resource=requested_resource,
        acr_values=polled.acr_values,
        aal=polled.aal,
        authenticated_at=polled.authenticated_at,
        approving_session_id=polled.session_id,
    )
    return client_sessions.start(access, grant=_GRANT, client=client, session_id=session_id, caller=caller, at=at)


@cache
def _poll_sql() -> str:
    """Record a poll, and mark an approved request as exchanged. Waits for a decision in progress.

    Locks the owner first, as a deletion of the user does. The next statement then sees the sessions that a concurrent
    change of the password leaves. A request that gets its owner meanwhile is exchanged by the next poll.
    """
    table = namespaced("oauth_device_authorizations")
    return f"""
        WITH owner AS MATERIALIZED (
            SELECT id FROM {namespaced("users")} WHERE id IN (
                SELECT user_id FROM {table} WHERE device_code_hash = %(digest)s AND client_id = %(client_id)s)
            FOR KEY SHARE
        ), found AS (
            SELECT id, status, user_id, session_id,
                status = 'approved' AND expires_at >= %(at)s AND user_id IN (SELECT id FROM owner) AS is_exchanged,
                coalesce(status = 'pending' AND polled_at + make_interval(secs => poll_interval) > %(at)s, false)
                    AS is_too_early
            FROM {table} WHERE (SELECT count(*) FROM owner) >= 0
                AND device_code_hash = %(digest)s AND client_id = %(client_id)s FOR UPDATE
        )
        UPDATE {table} d SET polled_at = %(at)s,
            status = CASE WHEN is_exchanged THEN 'exchanged' ELSE d.status END,
            session_id = CASE WHEN is_exchanged THEN %(session_id)s ELSE d.session_id END,
            poll_interval = d.poll_interval + CASE WHEN is_too_early THEN %(slow_down)s ELSE 0 END
        FROM found WHERE d.id = found.id
        RETURNING found.status, is_exchanged, is_too_early, found.user_id, d.scope, d.resource, d.acr_values, d.aal,
            d.authenticated_at, found.session_id, d.expires_at
    """  # noqa: S608  (own table names)

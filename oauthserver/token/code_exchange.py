"""Exchanges an authorization code for a session of the client (OAuth 2.1 §4.1.3)."""

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
from oauthserver.errors import InvalidGrant, TokenRequestInvalid
from oauthserver.models import AuthorizationStatus, OAuthAuthorization, OAuthClient
from oauthserver.token import client_sessions
from oauthserver.token.client_sessions import ApprovedAccess, ClientSession
from tokens.flows import pkce
from tokens.models import ChallengeMethod
from tokens.sessions import revocation, sign_in_metrics
from tokens.sessions.issuing import token_transaction

_GRANT = "authorization_code"


class _Approved(NamedTuple):
    """An approved request."""

    id: UUID
    client_id: UUID
    user_id: UUID | None
    redirect_uri: str
    scope: str
    resource: str | None
    code_challenge: str | None
    code_challenge_method: str | None
    nonce: str | None
    acr_values: str | None
    aal: str | None
    authenticated_at: datetime | None
    expires_at: datetime
    approving_session_id: UUID | None


@sign_in_metrics.measure_sign_in("oauth_provider", user_id=lambda session: session.user.id)
def exchange(request: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> ClientSession:
    """Exchange a code. Five statements, and one for each refused replay.

    A refused request leaves the code usable until it expires, or until the session that approved it ends. A code that
    was exchanged before ends the session that it gave (RFC 6749 §4.1.2). Raises TokenRequestInvalid, InvalidGrant,
    OwnerBanned.
    """
    code = request.get("code")
    if not code:
        raise TokenRequestInvalid("code is required for authorization_code grant")
    digest = crypto.hash_auth_code(code)
    session_id = uuid4()
    with token_transaction(caller):
        row = fetch_row(_claim_sql(), {"digest": digest, "session_id": session_id})
        if row is not None:
            return _exchange(_Approved(*row), request, client=client, session_id=session_id, caller=caller, at=at)
    _end_replayed_session(digest, client=client)
    raise InvalidGrant


def _exchange(
    approved: _Approved, request: ClientRequest, *, client: OAuthClient, session_id: UUID, caller: Caller, at: datetime
) -> ClientSession:
    _check(approved, request, client=client, at=at)
    access = ApprovedAccess(
        user_id=approved.user_id,
        scope=approved.scope,
        resource=approved.resource,
        requested_resource=request.get("resource"),
        nonce=approved.nonce,
        acr_values=approved.acr_values,
        aal=approved.aal,
        authenticated_at=approved.authenticated_at,
        approving_session_id=approved.approving_session_id,
        browser_session_id=approved.approving_session_id,
    )
    return client_sessions.start(access, grant=_GRANT, client=client, session_id=session_id, caller=caller, at=at)


def _check(approved: _Approved, request: ClientRequest, *, client: OAuthClient, at: datetime) -> None:
    """Raises InvalidGrant for the first difference between the approved request and the token request."""
    if at > approved.expires_at:
        raise InvalidGrant("Authorization code has expired")
    if approved.client_id != client.id:
        raise InvalidGrant("Authorization code was not issued for this client")
    if not resources.covers(approved.resource, request.get("resource")):
        raise InvalidGrant("Authorization code resource does not match the resource parameter")
    if request.get("redirect_uri") not in ("", approved.redirect_uri):
        raise InvalidGrant("Invalid redirect_uri")
    if not approved.code_challenge:
        return
    verifier = request.get("code_verifier")
    if not verifier:
        raise InvalidGrant("PKCE verification failed: code_verifier is required when PKCE challenge is present")
    method = approved.code_challenge_method or ChallengeMethod.PLAIN
    if not pkce.matches(challenge=approved.code_challenge, method=method, verifier=verifier):
        raise InvalidGrant("PKCE verification failed: code challenge does not match previously saved code verifier")


def _end_replayed_session(digest: str, *, client: OAuthClient) -> None:
    """End the session that a code gave before. Another client's attempt ends nothing."""
    exchanged = OAuthAuthorization.objects.filter(
        authorization_code=digest, client_id=client.id, status=AuthorizationStatus.EXCHANGED
    )
    session_id = exchanged.values_list("session_id", flat=True).first()
    if session_id is not None:
        revocation.revoke_session(session_id, reason="oauth_grant_revoked")


@cache
def _claim_sql() -> str:
    """Mark an approved request as exchanged. Of several requests with one code, one gets the row.

    Locks the owner first, as a deletion of the user does. The next statement then sees the sessions that a concurrent
    change of the password leaves.
    """
    table = namespaced("oauth_authorizations")
    return f"""
        WITH owner AS MATERIALIZED (
            SELECT id FROM {namespaced("users")} WHERE id IN (
                SELECT user_id FROM {table} WHERE authorization_code = %(digest)s AND status = 'approved')
            FOR KEY SHARE
        ), approved AS (
            SELECT id, session_id FROM {table}
            WHERE (SELECT count(*) FROM owner) >= 0 AND authorization_code = %(digest)s AND status = 'approved'
            FOR UPDATE SKIP LOCKED
        )
        UPDATE {table} a SET status = 'exchanged', session_id = %(session_id)s
        FROM approved WHERE a.id = approved.id
        RETURNING a.id, a.client_id, a.user_id, a.redirect_uri, a.scope, a.resource, a.code_challenge,
            a.code_challenge_method, a.nonce, a.acr_values, a.aal, a.authenticated_at, a.expires_at, approved.session_id
    """  # noqa: S608  (own table names)

"""Exchanges an authorization code for a session of the client (OAuth 2.1 §4.1.3)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import NamedTuple
from uuid import UUID, uuid4

from django.db import transaction

from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import audit
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import UnexpectedFailure
from authsvc.security import crypto
from oauthserver import scopes
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.errors import InvalidGrant, OwnerBanned, TokenRequestInvalid
from oauthserver.models import OAuthAuthorization, OAuthClient, Status
from oauthserver.token import id_tokens
from tokens.models import ChallengeMethod
from tokens.sessions import lifecycle, revocation, sign_in_metrics
from tokens.sessions.lifecycle import ClientGrant, TokenPair

METHOD = "oauth_provider/authorization_code"
"""The authentication method of the sessions of clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExchange:
    """The result of an exchange; `id_token` is empty without the scope `openid`."""

    user: UserRecord
    tokens: TokenPair
    scope: str
    id_token: str = field(default="", repr=False)


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


@sign_in_metrics.measure_sign_in("oauth_provider", user_id=lambda exchange: exchange.user.id)
def exchange(request: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> CodeExchange:
    """Exchanges a code. Five statements, and one for each refused replay.

    A refused request leaves the code usable until it expires, or until the session that approved it ends. A code that
    was exchanged before ends the session that it gave (RFC 6749 §4.1.2). Raises TokenRequestInvalid, InvalidGrant,
    OwnerBanned.
    """
    code = request.get("code")
    if not code:
        raise TokenRequestInvalid("code is required for authorization_code grant")
    digest = crypto.hash_auth_code(code)
    session_id = uuid4()
    with transaction.atomic(durable=True):
        row = fetch_row(_claim_sql(), (digest, session_id))
        if row is not None:
            return _exchange(_Approved(*row), request, client=client, session_id=session_id, caller=caller, at=at)
    _end_replayed_session(digest, client=client)
    raise InvalidGrant


def _exchange(
    approved: _Approved, request: ClientRequest, *, client: OAuthClient, session_id: UUID, caller: Caller, at: datetime
) -> CodeExchange:
    _check(approved, request, client=client, at=at)
    user = _find_owner(approved, caller=caller, at=at)
    caller.audit.next_session_id = caller.audit.session_id = session_id
    traits = {"provider_type": "oauth_provider_authorization_code", "client_id": str(client.id)}
    audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    grant = ClientGrant(client_id=client.id, scopes=approved.scope, resource=approved.resource)
    tokens = lifecycle.start_session(user=user, method=METHOD, caller=caller, at=at, client_grant=grant)
    user = queries.AccountUsers().record_sign_in(user, at=at)
    id_token = ""
    if scopes.OPENID in scopes.parse(approved.scope):
        if not scopes.can_issue_id_tokens():
            # The signing key has changed since the request.
            raise UnexpectedFailure("Error generating ID token")
        id_token = id_tokens.issue(
            user,
            client_id=client.id,
            scope=approved.scope,
            nonce=approved.nonce,
            acr=approved.aal if approved.acr_values else None,
            authenticated_at=approved.authenticated_at or at,
            at=at,
        )
    return CodeExchange(user=user, tokens=tokens, scope=scopes.normalize(approved.scope), id_token=id_token)


def _check(approved: _Approved, request: ClientRequest, *, client: OAuthClient, at: datetime) -> None:
    """Raises InvalidGrant for the first difference between the approved request and the token request."""
    if at > approved.expires_at:
        raise InvalidGrant("Authorization code has expired")
    if approved.client_id != client.id:
        raise InvalidGrant("Authorization code was not issued for this client")
    if request.get("resource") not in ("", approved.resource):
        raise InvalidGrant("Authorization code resource does not match the resource parameter")
    if request.get("redirect_uri") not in ("", approved.redirect_uri):
        raise InvalidGrant("Invalid redirect_uri")
    if not approved.code_challenge:
        return
    verifier = request.get("code_verifier")
    if not verifier:
        raise InvalidGrant("PKCE verification failed: code_verifier is required when PKCE challenge is present")
    if not _matches(verifier, approved.code_challenge, method=approved.code_challenge_method):
        raise InvalidGrant("PKCE verification failed: code challenge does not match previously saved code verifier")


def _matches(verifier: str, challenge: str, *, method: str | None) -> bool:
    """RFC 7636 §4.6."""
    if method == ChallengeMethod.S256:
        verifier = crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest())
    return crypto.constant_time_equal(verifier, challenge)


def _find_owner(approved: _Approved, *, caller: Caller, at: datetime) -> UserRecord:
    """The user who approved the request. One statement. Raises InvalidGrant, OwnerBanned.

    A logout or a new password has ended the session that approved the request, and so the code ends too.
    """
    if approved.user_id is None:
        raise InvalidGrant("Authorization code has no associated user")
    session_id = approved.approving_session_id
    owner = queries.AccountUsers().find_signed_in_user(user_id=approved.user_id, session_id=session_id)
    if owner is None or owner.user.deleted_at is not None:
        raise InvalidGrant("User not found for authorization code")
    user = queries.get_user_record(owner)
    caller.audit.account = user
    if user.is_banned(at):
        raise OwnerBanned
    if session_id is not None and owner.session is None:
        raise InvalidGrant
    return user


def _end_replayed_session(digest: str, *, client: OAuthClient) -> None:
    """Ends the session that a code gave before. Another client's attempt ends nothing."""
    exchanged = OAuthAuthorization.objects.filter(
        authorization_code=digest, client_id=client.id, status=Status.EXCHANGED
    )
    session_id = exchanged.values_list("session_id", flat=True).first()
    if session_id is not None:
        revocation.revoke_session(session_id)


@cache
def _claim_sql() -> str:
    """Marks an approved request as exchanged. Of several requests with one code, one gets the row.

    Locks its owner too, so that the next statement sees the sessions that a concurrent change of the password leaves.
    """
    table = namespaced("oauth_authorizations")
    return f"""
        WITH approved AS (
            SELECT id, user_id, session_id FROM {table}
            WHERE authorization_code = %s AND status = 'approved' FOR UPDATE SKIP LOCKED
        ), owner AS (
            SELECT id FROM {namespaced("users")} WHERE id IN (SELECT user_id FROM approved) FOR KEY SHARE
        )
        UPDATE {table} a SET status = 'exchanged', session_id = %s
        FROM approved LEFT JOIN owner ON owner.id = approved.user_id
        WHERE a.id = approved.id
        RETURNING a.id, a.client_id, a.user_id, a.redirect_uri, a.scope, a.resource, a.code_challenge,
            a.code_challenge_method, a.nonce, a.acr_values, a.aal, a.authenticated_at, a.expires_at, approved.session_id
    """  # noqa: S608  (own table names)

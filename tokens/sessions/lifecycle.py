"""Starts sessions, and issues their access tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID, uuid4

import orjson
from django.contrib.auth import get_user_model
from django.db import transaction

from authsvc import conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.security import crypto, encryption
from tokens.jwt import signing_keys
from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions import aal, errors, issuing, refresh_tokens, session_events, users
from tokens.sessions.users import SessionRecord, TokenUser


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A new access token; `expires_in` in seconds, `expires_at` in Unix seconds."""

    token: str = field(repr=False)
    expires_in: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """The tokens of a sign-in or a refresh."""

    access: AccessToken = field(repr=False)
    refresh_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientGrant:
    """An OAuth client that receives the tokens of a session, the scopes that the user granted, and their resource."""

    client_id: UUID
    scopes: str
    resource: str | None = None
    """Resources (RFC 8707), separated by spaces."""
    approving_session_id: UUID | None = None
    """The session of the browser in which the user granted the access."""
    requested_resource: str = ""
    """The part of the resources for which the first access token is; empty for all of them."""


def start_session(
    *,
    user: TokenUser,
    method: str,
    provider: str = "",
    caller: Caller,
    at: datetime,
    not_after: datetime | None = None,
    client_grant: ClientGrant | None = None,
    operator_session: SessionRecord | None = None,
) -> TokenPair:
    """Start a session of a user who has just authenticated with `method`. Joins the caller's `token_transaction`.

    `provider` names the provider of the identity for the lifecycle event; empty for other methods.
    Callers record the sign-in in the user's row themselves, together with their other changes to it. One statement. It
    starts no session for a user who was banned or deleted since the caller read the row, and waits for a deletion that
    has begun. With `operator_session`, its user impersonates the user, at its AAL. Audit entries that follow contain
    the session; `announce_session` adds it to earlier ones. Raises UserBanned, UserNotFoundForToken or the errors of
    the claims hook.
    """
    session_id = caller.audit.next_session_id or uuid4()
    caller.audit.next_session_id = None
    key = crypto.generate_key()
    record = SessionRecord(
        id=session_id,
        user_id=user.id,
        created_at=at,
        not_after=not_after,
        aal=operator_session.aal if operator_session else aal.AAL1,
        impersonator_id=operator_session.user_id if operator_session else None,
        impersonator_session_id=operator_session.id if operator_session else None,
        oauth_client_id=client_grant.client_id if client_grant else None,
        scopes=client_grant.scopes if client_grant else None,
        resource=client_grant.resource if client_grant else None,
    )
    approving_session_id = client_grant.approving_session_id if client_grant else None
    with transaction.atomic(savepoint=False):
        if not _insert(record, key=key, method=method, approving_session_id=approving_session_id, caller=caller, at=at):
            if users.user_source.find_user(user.id) is None:
                raise errors.UserNotFoundForToken
            raise errors.UserBanned
    caller.audit.session_id = session_id
    if caller.audit.event_actor is None:
        caller.audit.event_actor = users.actor_of(user)
    session_events.record_start(user, record, method=method, provider=provider, at=at)
    return TokenPair(
        access=issue_access_token(
            user=user,
            session=record,
            amr=[AmrEntry(method=method, at=at)],
            method=method,
            caller=caller,
            at=at,
            resource=client_grant.requested_resource if client_grant else "",
        ),
        refresh_token=refresh_tokens.encode(session_id=session_id, counter=0, key=crypto.base64url_decode(key)),
    )


def _insert(
    record: SessionRecord, *, key: str, method: str, approving_session_id: UUID | None, caller: Caller, at: datetime
) -> bool:
    """Store a session with its method; False if the user was banned or deleted."""
    values = {
        "user_id": record.user_id,
        "session_id": record.id,
        "at": at,
        "not_after": record.not_after,
        "user_agent": caller.user_agent or None,
        "ip": caller.address or None,
        "key": encryption.encrypt(key, bound_to=record.id, always=True),
        "claim_id": uuid4(),
        "method": method,
        "aal": record.aal,
        "impersonator_id": record.impersonator_id,
        "impersonator_session_id": record.impersonator_session_id,
        "oauth_client_id": record.oauth_client_id,
        "scopes": record.scopes,
        "resource": record.resource,
        "approving_session_id": approving_session_id,
    }
    return fetch_row(_start_sql(), values) is not None


def announce_session(caller: Caller) -> None:
    """Choose the id of the session that the request is about to start, so that its audit entries contain it."""
    caller.audit.next_session_id = caller.audit.session_id = uuid4()


@cache
def _start_sql() -> str:
    # The lock conflicts with that of a deletion, and with no other change of the user's row.
    return f"""
        WITH allowed AS (
            SELECT id FROM {get_user_model()._meta.db_table}
            WHERE id = %(user_id)s AND deleted_at IS NULL AND (banned_until IS NULL OR banned_until <= %(at)s)
            FOR KEY SHARE
        ), started AS (
            INSERT INTO {namespaced("sessions")} (id, user_id, created_at, updated_at, aal, not_after, user_agent, ip,
                refresh_token_hmac_key, refresh_token_counter, impersonator_id, impersonator_session_id,
                oauth_client_id, scopes, resource, approving_session_id)
            SELECT %(session_id)s, id, %(at)s, %(at)s, %(aal)s, %(not_after)s::timestamptz, %(user_agent)s::text,
                %(ip)s::inet, %(key)s, 0, %(impersonator_id)s::uuid, %(impersonator_session_id)s::uuid,
                %(oauth_client_id)s::uuid, %(scopes)s::text, %(resource)s::text,
                %(approving_session_id)s::uuid FROM allowed
            RETURNING id
        )
        INSERT INTO {namespaced("mfa_amr_claims")} (id, session_id, authentication_method, created_at, updated_at)
        SELECT %(claim_id)s, id, %(method)s, %(at)s, %(at)s FROM started RETURNING session_id
    """  # noqa: S608  (own table names)


def issue_access_token(
    *,
    user: TokenUser,
    session: SessionRecord,
    amr: Sequence[AmrEntry],
    method: str,
    caller: Caller,
    at: datetime,
    resource: str = "",
) -> AccessToken:
    """A token for this session of this user, issued at `at` and signed with the current signing key.

    `method`: the authentication method that the claims hook receives. `resource`: the requested part of the session's
    resources; empty for all of them. Must run inside `token_transaction`. Raises the errors of the claims hook.
    """
    config = conf.current().jwt
    is_impersonated = session.impersonator_id is not None
    resources = (resource or session.resource or "").split()
    level = session.aal if is_impersonated else aal.aal_of(entry.method for entry in amr)
    issued_at = int(at.timestamp())
    expires_at = _expiry(issued_at=issued_at, level=level, user=user, session=session)
    claims: dict[str, Any] = {"iss": config.issuer} if config.issuer else {}
    claims |= {
        "sub": str(user.id),
        "aud": [user.aud, *dict.fromkeys(resources)] if resources else user.aud,
        "exp": expires_at,
        "iat": issued_at,
        "email": user.email,
        "phone": user.phone,
        "app_metadata": orjson.Fragment(user.app_metadata_json),
        "user_metadata": orjson.Fragment(user.user_metadata_json),
        "role": user.role,
        "aal": level,
    }
    if amr:
        claims["amr"] = amr_claim(amr)
    claims["session_id"] = str(session.id)
    claims["is_anonymous"] = user.is_anonymous
    if is_impersonated:
        claims["act"] = {"sub": str(session.impersonator_id)}  # RFC 8693 §4.1
    if session.oauth_client_id is not None:
        claims["client_id"] = str(session.oauth_client_id)
        claims["scope"] = session.scopes or ""
    claims = issuing.customize(claims, user=user, method=method, caller=caller)
    token = signing_keys.current().signing.encode(claims)
    return AccessToken(token=token, expires_in=expires_at - issued_at, expires_at=expires_at)


def amr_claim(entries: Iterable[AmrEntry]) -> list[dict[str, str | int]]:
    """The `amr` claim, most recent method first; `timestamp` in Unix seconds."""
    newest_first = sorted(entries, key=lambda entry: entry.at, reverse=True)
    return [_amr_json(entry) for entry in newest_first]


def _expiry(*, issued_at: int, level: str, user: TokenUser, session: SessionRecord) -> int:
    expires_at = issued_at + int(conf.current().jwt.exp.total_seconds())
    if session.impersonator_id is not None and session.not_after is not None:
        expires_at = min(expires_at, int(session.not_after.timestamp()))
    allow_low_aal = conf.current().sessions.allow_low_aal
    if allow_low_aal is None or level >= aal.highest_aal(user):
        return expires_at
    return min(expires_at, int((session.created_at + allow_low_aal).timestamp()))


def _amr_json(entry: AmrEntry) -> dict[str, str | int]:
    content: dict[str, str | int] = {"method": entry.method, "timestamp": int(entry.at.timestamp())}
    if entry.provider is not None:
        content["provider"] = entry.provider
    return content

"""The refresh grant: exchanges a refresh token while the session row is locked, and detects reuse.

No request waits for a row lock: when another request has locked the session, it rolls back, sleeps for some
milliseconds and retries.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import cache
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import UnexpectedFailure
from authsvc.observability import metrics
from authsvc.security import crypto, encryption
from tokens.sessions import (
    aal,
    errors,
    impersonation,
    issuing,
    legacy_refresh,
    lifecycle,
    refresh_tokens,
    revocation,
    session_limits,
    sign_in_metrics,
    users,
)
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SessionRecord, SignedInUser, TokenUser

_LOCK_TIMEOUT = 5.0
"""Seconds after which a refresh that could not lock the session fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    user: TokenUser
    tokens: TokenPair
    scopes: str = ""
    """The scopes of an OAuth client's session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshingClient:
    """An authenticated OAuth client that refreshes its session."""

    id: UUID
    resource: str = ""
    """The resources (RFC 8707) for which it requests the access token; empty for all of the session."""


class RotationDecision(Enum):
    ROTATE = auto()
    """The presented token is the newest: issue the next one."""
    REPEAT = auto()
    """Issue the newest token again."""
    REUSED = auto()
    """The token was probably stolen: revoke the session."""
    REJECTED = auto()
    """The token is too old; the session continues."""
    AHEAD = auto()
    """The key is right, but the counter was never reached."""


_MAX_WAIT = timedelta(minutes=1)
"""Longest time by which a request that has waited for another one can be older than its rotation."""


def decide_rotation(*, behind: int, age: timedelta, refresh: conf.Refresh) -> RotationDecision:
    """`behind`: newest counter minus presented one; `age`: time since the last rotation, by clocks that may differ.

    With rotation enabled, only the immediate predecessor, and only inside the reuse interval, gets the newest token
    again (RFC 9700 §4.14.2); every older token is an attack.
    """
    if age < -_MAX_WAIT:
        # The clock of the other server is ahead. Its distance is the only known age.
        age = -age
    if behind < 0:
        return RotationDecision.AHEAD
    if behind == 0:
        return RotationDecision.ROTATE
    if refresh.allow_reuse:
        return RotationDecision.REPEAT
    if refresh.rotation_enabled:
        return RotationDecision.REPEAT if behind == 1 and age <= refresh.reuse_interval else RotationDecision.REUSED
    return RotationDecision.REPEAT if behind == 1 or age < refresh.reuse_interval else RotationDecision.REJECTED


def refresh(*, token: str, caller: Caller, at: datetime, client: RefreshingClient | None = None) -> RefreshResult:
    """Exchange a refresh token. Raises the errors of the refresh grant; reuse revokes the session first.

    `client`: the authenticated OAuth client, which can refresh its own sessions only.
    """
    try:
        result = _retry_while_locked(token, caller=caller, at=at, client=client)
    except Exception as error:
        metrics.REFRESHES.labels(sign_in_metrics.outcome_of(error)).inc()
        raise
    metrics.REFRESHES.labels(sign_in_metrics.SUCCEEDED).inc()
    sign_in_metrics.log_sign_in("token", user_id=result.user.id)
    return result


def _retry_while_locked(token: str, *, caller: Caller, at: datetime, client: RefreshingClient | None) -> RefreshResult:
    """Repeat the attempt while another request has locked the session. Raises TooManyConcurrentRefreshes."""
    try:
        refresh_tokens.check_format(token)
    except errors.RefreshTokenNotValid:
        # For an OAuth client, a malformed refresh token is an unknown one (RFC 6749 §5.2).
        raise errors.RefreshTokenNotFound if client else errors.RefreshTokenNotValid from None
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while time.monotonic() < deadline:
        result = _attempt(token, caller=caller, at=at, client=client)
        if result is not None:
            return result
        if not issuing.wait_for_lock(random.uniform(0.010, 0.029)):  # noqa: S311  (jitter)
            break
    raise errors.TooManyConcurrentRefreshes


def _attempt(token: str, *, caller: Caller, at: datetime, client: RefreshingClient | None) -> RefreshResult | None:
    """One attempt; None when another request has locked the session."""
    if refresh_tokens.is_legacy(token):
        return _attempt_legacy(token, caller=caller, at=at, client=client)
    presented = refresh_tokens.decode(token)
    signed_in = users.user_source.find_by_session(presented.session_id)
    if signed_in is None or signed_in.session is None:
        raise errors.RefreshTokenNotFound
    caller.audit.session_id = presented.session_id
    key = session_key(signed_in.session)
    if key is None or not presented.is_signed_with(crypto.base64url_decode(key)):
        raise errors.RefreshTokenNotFound
    check_allowed(signed_in, at=at, client=client)
    return _rotate(signed_in, presented_counter=presented.counter, key=key, client=client, caller=caller, at=at)


def _attempt_legacy(
    token: str, *, caller: Caller, at: datetime, client: RefreshingClient | None
) -> RefreshResult | None:
    """As `_attempt`, for an imported refresh token, whose first refresh converts the session."""
    legacy = legacy_refresh.find(token)
    signed_in = users.user_source.find_by_session(legacy.session_id)
    if signed_in is None or signed_in.session is None:
        raise errors.NoValidSession
    caller.audit.session_id = legacy.session_id
    key = session_key(signed_in.session)
    if key is not None:
        # The token whose refresh converted the session counts as the predecessor of counter 0, any other as older.
        counter = -1 if legacy_refresh.caused_conversion(legacy) else -2
        check_allowed(signed_in, at=at, client=client)
        return _rotate(signed_in, presented_counter=counter, key=key, client=client, caller=caller, at=at)
    check_allowed(signed_in, at=at, token_used_at=legacy.updated_at, client=client)
    with token_transaction(caller):
        if not _lock_single_session(signed_in, at=at):
            transaction.set_rollback(True)
            return None
        exchange = legacy_refresh.exchange(legacy, session=signed_in.session, caller=caller, at=at)
        if exchange is None:
            transaction.set_rollback(True)
            return None
        if exchange.refresh_token is not None:
            audit.record(audit.Action.TOKEN_REFRESHED, actor=signed_in.user, caller=caller, at=at)
            if exchange.converted:
                audit.record(audit.Action.TOKEN_REVOKED, actor=signed_in.user, caller=caller, at=at)
            return _result(signed_in, refresh_token=exchange.refresh_token, client=client, caller=caller, at=at)
    raise _reused(signed_in, caller=caller, at=at)


def _rotate(
    signed_in: SignedInUser,
    *,
    presented_counter: int,
    key: str,
    client: RefreshingClient | None,
    caller: Caller,
    at: datetime,
) -> RefreshResult | None:
    """Issue the next token, or the newest one again; None when another request has locked the session.

    Reuse revokes the session, and raises RefreshTokenReused after the commit.
    """
    session = signed_in.session
    assert session is not None  # noqa: S101  (narrowing; both callers have checked)
    if not impersonation.is_active(signed_in, caller=caller, at=at):
        raise errors.NoValidSession
    config = conf.current().refresh
    stored = session.refresh_token_hmac_key or ""
    is_outdated = encryption.needs_reencryption(stored, always=True)
    reencrypted = encryption.encrypt(key, bound_to=session.id, always=True) if is_outdated else None
    entry = audit.draft_entry(audit.Action.TOKEN_REFRESHED, actor=signed_in.user, caller=caller, at=at)
    with token_transaction(caller):
        locked = None
        if _lock_single_session(signed_in, at=at):
            locked = _lock_and_rotate(
                session_id=session.id,
                presented=presented_counter,
                reencrypted_key=reencrypted,
                always_counts_as_use=not config.rotation_enabled or config.allow_reuse,
                user_agent=caller.user_agent or None,
                ip=caller.address or None,
                entry=entry,
                at=at,
            )
        if locked is None:
            transaction.set_rollback(True)
            return None
        counter, rotated_at = locked
        decision = decide_rotation(behind=counter - presented_counter, age=at - rotated_at, refresh=config)
        match decision:
            case RotationDecision.REJECTED:
                raise errors.RefreshTokenReused
            case RotationDecision.AHEAD:
                raise errors.RefreshTokenNotIssuedHere
            case RotationDecision.REUSED if (
                counter - presented_counter == refresh_tokens.STEP_UP_DISTANCE
                and _has_just_stepped_up(signed_in, session, counter=counter, rotated_at=rotated_at, at=at)
            ):
                raise errors.RefreshTokenReused
            case RotationDecision.REUSED:
                revocation.revoke_session(session.id, reason="refresh_reuse")
            case RotationDecision.ROTATE | RotationDecision.REPEAT:
                newest = counter + 1 if decision is RotationDecision.ROTATE else counter
                text = refresh_tokens.encode(session_id=session.id, counter=newest, key=crypto.base64url_decode(key))
                result = _result(signed_in, refresh_token=text, client=client, caller=caller, at=at)
                if decision is RotationDecision.ROTATE:
                    audit.log_entry(entry, caller=caller, at=at)
                else:
                    audit.record(audit.Action.TOKEN_REFRESHED, actor=signed_in.user, caller=caller, at=at)
                return result
    raise _reused(signed_in, caller=caller, at=at)


def _has_just_stepped_up(
    signed_in: SignedInUser, session: SessionRecord, *, counter: int, rotated_at: datetime, at: datetime
) -> bool:
    """True if a step-up, at most the reuse interval ago, is the last change of the session's refresh token.

    Another tab may then still have the newest token from before. It is invalid, but no sign of a theft. No statement
    unless the locked session, which has `counter`, has changed since it was read.
    """
    methods = signed_in.amr
    if counter != session.refresh_token_counter:
        current = users.user_source.find_by_session(session.id)
        methods = current.amr if current else ()
    interval = conf.current().refresh.reuse_interval
    times = [entry.at for entry in methods if entry.method in aal.SECOND_FACTORS]
    # The clock of the server that has recorded the time may be ahead.
    return any(time > rotated_at and abs(at - time) <= interval for time in times)


def _reused(signed_in: SignedInUser, *, caller: Caller, at: datetime) -> errors.RefreshTokenReused:
    """Count and record that a reused token has revoked its session, and return the error. Runs after the commit."""
    metrics.REFRESH_REUSES.inc()
    error = errors.RefreshTokenReused()
    audit.record_refusal(
        audit.Action.TOKEN_REVOKED, actor=signed_in.user, error_code=error.error_code, caller=caller, at=at
    )
    return error


def _lock_and_rotate(
    *,
    session_id: UUID,
    presented: int,
    reencrypted_key: str | None,
    always_counts_as_use: bool,
    user_agent: str | None,
    ip: str | None,
    entry: audit.PendingEntry,
    at: datetime,
) -> tuple[int, datetime] | None:
    """Lock a session without waiting, and increment its counter and store `entry` if it equals the presented one.

    Returns the previous counter and the time of the previous rotation; None when the row is locked or gone.
    Only a rotation updates `refreshed_at`, so that repeating a token does not extend its reuse interval;
    `always_counts_as_use` updates it every time, for configurations without such an interval.
    """
    values = {
        "session_id": session_id,
        "presented": presented,
        "always_counts_as_use": always_counts_as_use,
        "key": reencrypted_key,
        "user_agent": user_agent,
        "ip": ip,
        "entry_id": entry.id,
        "payload": entry.payload,
        "address": entry.address,
        "at": at,
    }
    previous = fetch_row(_rotation_sql(), values)
    return (previous[0], previous[1]) if previous else None


@cache
def _rotation_sql() -> str:
    table = namespaced("sessions")
    return f"""
        WITH locked AS (
            SELECT id, refresh_token_counter AS counter, coalesce(refreshed_at, created_at) AS since
            FROM {table} WHERE id = %(session_id)s AND refresh_token_counter IS NOT NULL FOR UPDATE SKIP LOCKED
        ), recorded AS (
            INSERT INTO {namespaced("audit_log_entries")} (id, payload, created_at, ip_address)
            SELECT %(entry_id)s, %(payload)s::jsonb, %(at)s, %(address)s FROM locked
            WHERE counter = %(presented)s AND %(payload)s::text IS NOT NULL
        )
        UPDATE {table} s SET
            refresh_token_counter = CASE WHEN l.counter = %(presented)s THEN l.counter + 1 ELSE l.counter END,
            refreshed_at = CASE
                WHEN l.counter = %(presented)s OR %(always_counts_as_use)s THEN %(at)s ELSE s.refreshed_at END,
            refresh_token_hmac_key = coalesce(%(key)s, s.refresh_token_hmac_key),
            user_agent = %(user_agent)s, ip = %(ip)s, updated_at = %(at)s
        FROM locked l WHERE s.id = l.id RETURNING l.counter, l.since
    """  # noqa: S608  (own table names)


def session_key(session: SessionRecord) -> str | None:
    """The key of a session's refresh tokens; None for an imported session that is not converted."""
    if session.refresh_token_hmac_key is None or session.refresh_token_counter is None:
        return None
    return decrypt_key(session.refresh_token_hmac_key, session_id=session.id)


def decrypt_key(stored: str, *, session_id: UUID) -> str:
    """The key of a session from its column.

    Raises UnexpectedFailure when it cannot be decrypted, and RefreshTokenNotFound when JWT_SECRET has changed since.
    """
    try:
        return encryption.decrypt(stored, bound_to=session_id)
    except encryption.DecryptionError as error:
        if encryption.key_id(stored) == encryption.DERIVED_KEY_ID:
            raise errors.RefreshTokenNotFound from None
        raise UnexpectedFailure("Unable to decrypt the refresh token key of the session") from error


def check_allowed(
    signed_in: SignedInUser,
    *,
    at: datetime,
    token_used_at: datetime | None = None,
    client: RefreshingClient | None = None,
) -> None:
    """Check the ban of the user, the limits of the session, then its client. Raises the errors of the refresh grant.

    `client`: the authenticated OAuth client.
    """
    user, session = signed_in.user, signed_in.session
    if user.banned_until is not None and at < user.banned_until:
        raise errors.UserBannedAtRefresh
    if session is not None:
        session_limits.check_limits(session, user=user, at=at, token_used_at=token_used_at)
        _check_client(session, client=client)


def _check_client(session: SessionRecord, *, client: RefreshingClient | None) -> None:
    """Check that the client of the session refreshes it, for resources that the session has."""
    if session.oauth_client_id == (client.id if client else None):
        if client and not set(client.resource.split()) <= set((session.resource or "").split()):
            raise errors.ResourceNotGranted
        return
    if client is None:
        raise errors.ClientAuthenticationRequired
    if session.oauth_client_id is None:
        raise errors.ClientAuthenticationNotAllowed
    raise errors.ClientMismatch


def _lock_single_session(signed_in: SignedInUser, *, at: datetime) -> bool:
    # The session of an operator who impersonates the user does not count.
    if not conf.current().sessions.single_per_user or signed_in.session is None or signed_in.is_impersonated:
        return True
    return session_limits.check_single_session(signed_in.session, user=signed_in.user, at=at)


def _result(
    signed_in: SignedInUser, *, refresh_token: str, client: RefreshingClient | None, caller: Caller, at: datetime
) -> RefreshResult:
    """The tokens of a refresh. Runs inside its transaction, which a refusal of the claims hook rolls back."""
    assert signed_in.session is not None  # noqa: S101  (narrowing; every caller has checked)
    access = lifecycle.issue_access_token(
        user=signed_in.user,
        session=signed_in.session,
        amr=signed_in.amr,
        method=issuing.TOKEN_REFRESH,
        caller=caller,
        at=at,
        resource=client.resource if client else "",
    )
    return RefreshResult(
        user=signed_in.user,
        tokens=TokenPair(access=access, refresh_token=refresh_token),
        scopes=signed_in.session.scopes or "",
    )

"""The refresh grant: the turn of a session is taken under its lock, and what was presented decides what comes back.

Nobody waits on a lock: a request that finds the session held by another gives its connection back, sleeps a moment
and reads again.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from authsvc.observability import metrics
from authsvc.security import crypto, encryption
from tokens import errors, queries
from tokens.jwt import access_tokens
from tokens.sessions import legacy_refresh, lifecycle, refresh_tokens, rotation, sign_in_metrics, subjects
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.refresh_tokens import Presented
from tokens.sessions.rotation import Verdict
from tokens.sessions.subjects import SessionFacts, SignedIn, Subject

_PATIENCE = 5.0
"""Seconds after which a refresh that never got its turn is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    subject: Subject
    tokens: TokenPair


def refresh(*, token: str, caller: Caller, at: datetime) -> Refreshed:
    """Exchange a refresh token. Raises the errors of the refresh grant, a reuse only after its session was ended."""
    try:
        done = _in_turn(token, caller=caller, at=at)
    except Exception as error:
        metrics.REFRESHES.labels(sign_in_metrics.outcome(error)).inc()
        raise
    metrics.REFRESHES.labels(sign_in_metrics.SUCCEEDED).inc()
    sign_in_metrics.note("token", user_id=done.subject.id)
    return done


def _in_turn(token: str, *, caller: Caller, at: datetime) -> Refreshed:
    refresh_tokens.check_shape(token)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        done = _attempt(token, caller=caller, at=at)
        if done is not None:
            return done
        time.sleep(random.uniform(0.010, 0.029))  # noqa: S311  (spreads out waiters)
    raise errors.TooManyConcurrentRefreshes


def _attempt(token: str, *, caller: Caller, at: datetime) -> Refreshed | None:
    """One try; None when another request holds the session."""
    if refresh_tokens.is_legacy(token):
        return _attempt_legacy(token, caller=caller, at=at)
    presented = refresh_tokens.open(token)
    signed_in = subjects.user_source.get().with_session(presented.session_id)
    if signed_in is None or signed_in.session is None:
        raise errors.RefreshTokenNotFound
    key = session_key(signed_in.session)
    if key is None or not presented.signed_with(crypto.base64url_decode(key)):
        raise errors.RefreshTokenNotFound
    return _take_turn(presented, signed_in, key=key, caller=caller, at=at)


def _attempt_legacy(token: str, *, caller: Caller, at: datetime) -> Refreshed | None:
    found = legacy_refresh.find(token)
    signed_in = subjects.user_source.get().with_session(found.session_id)
    if signed_in is None or signed_in.session is None:
        raise errors.NoValidSession
    counter = signed_in.session.refresh_token_counter
    key = session_key(signed_in.session)
    if key is not None and counter is not None:
        # The token whose refresh converted the session stands one before the first counter token, any other two.
        before_first = 1 if legacy_refresh.was_converted(found) else 2
        stand_in = Presented(signed_in.session.id, -before_first, b"", b"")
        return _take_turn(stand_in, signed_in, key=key, caller=caller, at=at)
    check(signed_in, at=at, token_used_at=found.updated_at)
    with transaction.atomic(durable=True):
        if not _may_go_on(signed_in, at=at):
            transaction.set_rollback(True)
            return None
        outcome = legacy_refresh.exchange(found, session=signed_in.session, caller=caller, at=at)
        if outcome is None:
            transaction.set_rollback(True)
            return None
        if outcome.refresh_token is not None:
            _record(signed_in, caller=caller, at=at)
            if outcome.converted:
                audit.record(audit.Action.TOKEN_REVOKED, actor=signed_in.subject, caller=caller, at=at)
    if outcome.refresh_token is None:
        metrics.REFRESH_REUSES.inc()
        raise errors.RefreshTokenReused
    return _answer(signed_in, refresh_token=outcome.refresh_token, at=at)


def _take_turn(
    presented: Presented, signed_in: SignedIn, *, key: str, caller: Caller, at: datetime
) -> Refreshed | None:
    session = signed_in.session
    assert session is not None  # noqa: S101  (narrowing; both callers have checked)
    check(signed_in, at=at)
    config = conf.current().refresh
    stored = session.refresh_token_hmac_key or ""
    resealed = encryption.encrypt(key, bound_to=session.id) if encryption.needs_reencryption(stored) else None
    with transaction.atomic(durable=True):
        turn = None
        if _may_go_on(signed_in, at=at):
            turn = queries.lock_and_swap(
                session_id=session.id,
                presented=presented.counter,
                resealed_key=resealed,
                always_counts_as_use=not config.rotation_enabled or config.allow_reuse,
                user_agent=caller.user_agent or None,
                ip=caller.address or None,
                at=at,
            )
        if turn is None:
            transaction.set_rollback(True)
            return None
        counter, since = turn
        verdict = rotation.judge(
            behind=counter - presented.counter,
            age=at - since,
            refresh=config,
        )
        match verdict:
            case Verdict.REUSED:
                lifecycle.revoke(session.id)
            case Verdict.REFUSED:
                raise errors.RefreshTokenReused
            case Verdict.AHEAD:
                raise errors.RefreshTokenNotIssuedHere
            case Verdict.ROTATE | Verdict.REPEAT:
                _record(signed_in, caller=caller, at=at)
    if verdict is Verdict.REUSED:
        metrics.REFRESH_REUSES.inc()
        raise errors.RefreshTokenReused
    newest = counter + 1 if verdict is Verdict.ROTATE else counter
    text = refresh_tokens.seal(session_id=session.id, counter=newest, key=crypto.base64url_decode(key))
    return _answer(signed_in, refresh_token=text, at=at)


def session_key(session: SessionFacts) -> str | None:
    """The key behind a session's refresh tokens; None for an imported session that is not converted."""
    if session.refresh_token_hmac_key is None or session.refresh_token_counter is None:
        return None
    return open_key(session.refresh_token_hmac_key, session_id=session.id)


def open_key(sealed: str, *, session_id: UUID) -> str:
    """The key of a session as it is stored. Raises UnexpectedFailure when it cannot be opened."""
    try:
        return encryption.decrypt(sealed, bound_to=session_id)
    except encryption.DecryptionError as error:
        raise UnexpectedFailure("Unable to decrypt the refresh token key of the session") from error


def check(signed_in: SignedIn, *, at: datetime, token_used_at: datetime | None = None) -> None:
    """Ban, then time limits."""
    subject, session = signed_in.subject, signed_in.session
    if subject.banned_until is not None and at < subject.banned_until:
        raise errors.UserBannedAtRefresh
    if session is not None:
        lifecycle.check_limits(session, subject=subject, at=at, token_used_at=token_used_at)
        if session.oauth_client_id is not None:
            raise errors.ClientAuthenticationRequired


def _may_go_on(signed_in: SignedIn, *, at: datetime) -> bool:
    if not conf.current().sessions.single_per_user or signed_in.session is None:
        return True
    return lifecycle.check_single(signed_in.session, subject=signed_in.subject, at=at)


def _record(signed_in: SignedIn, *, caller: Caller, at: datetime) -> None:
    audit.record(audit.Action.TOKEN_REFRESHED, actor=signed_in.subject, caller=caller, at=at)


def _answer(signed_in: SignedIn, *, refresh_token: str, at: datetime) -> Refreshed:
    assert signed_in.session is not None  # noqa: S101  (narrowing; every caller has checked)
    issued = access_tokens.issue(subject=signed_in.subject, session=signed_in.session, amr=signed_in.amr, at=at)
    return Refreshed(subject=signed_in.subject, tokens=TokenPair(issued=issued, refresh_token=refresh_token))

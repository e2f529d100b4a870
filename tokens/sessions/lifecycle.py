"""Starts, locks, limits and revokes sessions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid4

from django.contrib.auth import get_user_model
from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens import errors
from tokens.jwt.access_tokens import AmrEntry
from tokens.models import AmrClaim, Session
from tokens.sessions import aal, issuance, queries, refresh_tokens, users
from tokens.sessions.issuance import TokenPair
from tokens.sessions.users import EPOCH, SessionRecord, SignedInUser, TokenUser


def start_session(
    *, user: TokenUser, method: str, caller: Caller, at: datetime, not_after: datetime | None = None
) -> TokenPair:
    """Starts a session of a user who has just authenticated with `method`. Joins the caller's transaction.

    Callers record the sign-in in the user's row themselves, together with their other changes to it.
    """
    session_id = uuid4()
    key = crypto.generate_key()
    with transaction.atomic(savepoint=False):
        session = Session.objects.create(
            id=session_id,
            user_id=user.id,
            created_at=at,
            updated_at=at,
            aal=aal.AAL1,
            not_after=not_after,
            user_agent=caller.user_agent or None,
            ip=caller.address or None,
            refresh_token_hmac_key=encryption.encrypt(key, bound_to=session_id),
            refresh_token_counter=0,
        )
        AmrClaim.objects.create(session=session, authentication_method=method, created_at=at, updated_at=at)
    record = SessionRecord(id=session_id, user_id=user.id, created_at=at)
    return TokenPair(
        access=issuance.issue_access_token(user=user, session=record, amr=[AmrEntry(method=method, at=at)], at=at),
        refresh_token=refresh_tokens.encode(session_id=session_id, counter=0, key=crypto.base64url_decode(key)),
    )


def check_limits(
    session: SessionRecord, *, user: TokenUser, at: datetime, token_used_at: datetime | None = None
) -> None:
    """Raises SessionExpired for the first time limit of the session that has passed.

    `token_used_at`: the last use of an imported refresh token, which counts as activity of its session.
    """
    limits = conf.current().sessions
    if session.not_after is not None and at > session.not_after:
        raise errors.SessionExpired
    if limits.timebox is not None and at > session.created_at + limits.timebox:
        raise errors.SessionExpired
    if limits.inactivity_timeout is not None and at > last_used_at(session, token_used_at) + limits.inactivity_timeout:
        raise errors.SessionExpired(errors.Expiry.INACTIVITY)
    if (
        limits.allow_low_aal is not None
        and session.aal < aal.highest_available(user)
        and at > session.created_at + limits.allow_low_aal
    ):
        raise errors.SessionExpired(errors.Expiry.LOW_AAL)


def check_single_session(session: SessionRecord, *, user: TokenUser, at: datetime) -> bool:
    """Locks the user's row and checks that no session with the same tag was used more recently.

    Returns False when the row is locked by another request. Raises SessionExpired when a newer valid session exists.
    Must run inside the transaction of the refresh.
    """
    rows = get_user_model()._default_manager.select_for_update(skip_locked=True)
    if not rows.filter(pk=user.id).values_list("pk").first():
        return False
    for other in Session.objects.filter(user_id=user.id).exclude(id=session.id):
        record = _record(other)
        is_newer = _tag(record) == _tag(session) and last_used_at(record) > last_used_at(session)
        if is_newer and _is_valid(record, user, at):
            raise errors.SessionExpired(errors.Expiry.NEWER_LOGIN)
    return True


def last_used_at(session: SessionRecord, token_used_at: datetime | None = None) -> datetime:
    if session.refreshed_at is not None:
        return session.refreshed_at
    return max(session.created_at, token_used_at) if token_used_at else session.created_at


def lock_signed_in_user(signed_in: SignedInUser) -> SignedInUser:
    """Locks the user's row and returns the user and session as they are now. Must run inside a transaction.

    Hashing and outgoing requests lie between the check of a token and the write that it allows. In that time the
    session may be revoked or lose its second factor, so writes check the returned state. Raises UserNotFoundForToken
    or SessionNotFound.
    """
    if not lock_user(signed_in.user.id):
        raise errors.UserNotFoundForToken
    session_id = signed_in.session.id if signed_in.session is not None else None
    # A separate statement reads the session as it is after the wait for the lock.
    current = users.user_source.find_signed_in_user(user_id=signed_in.user.id, session_id=session_id)
    if current is None:
        raise errors.UserNotFoundForToken
    if session_id is not None and current.session is None:
        raise errors.SessionNotFound
    return current


def lock_user(user_id: UUID) -> bool:
    """Locks the user's row; False when there is no such user."""
    rows = get_user_model()._default_manager.select_for_update()
    return rows.filter(pk=user_id).values_list("pk").first() is not None


def log_out(signed_in: SignedInUser, *, scope: str, caller: Caller, at: datetime) -> None:
    """Revokes sessions of a user: all (`global`), this one (`local`) or all other ones (`others`).

    A token without a session revokes all sessions for every scope. Raises UnsupportedLogoutScope.
    """
    if scope not in ("", "global", "local", "others"):
        raise errors.UnsupportedLogoutScope(scope)
    own_session_id = signed_in.session.id if signed_in.session else None
    with transaction.atomic(durable=True):
        audit.record(audit.Action.LOGOUT, actor=signed_in.user, caller=caller, at=at)
        if own_session_id and scope == "local":
            # The database cascades the deletion; Django's cascade would read every dependent row first.
            Session.objects.filter(id=own_session_id)._raw_delete("default")
        else:
            revoke_all_sessions(signed_in.user.id, except_session_id=own_session_id if scope == "others" else None)


def revoke_all_sessions(user_id: UUID, *, except_session_id: UUID | None = None) -> None:
    """Revokes the sessions of a user, and deletes the user's unfinished flows that link an identity.

    One statement; joins the caller's transaction.
    """
    with transaction.atomic(savepoint=False):
        queries.delete_sessions(user_id=user_id, except_session_id=except_session_id)


def revoke_session(session_id: UUID) -> None:
    """Revokes a session, and deletes the user's unfinished flows that link an identity.

    One statement; joins the caller's transaction.
    """
    with transaction.atomic(savepoint=False):
        queries.delete_session(session_id=session_id)


def _is_valid(session: SessionRecord, user: TokenUser, at: datetime) -> bool:
    try:
        check_limits(session, user=user, at=at)
    except errors.SessionExpired:
        return False
    return True


def _tag(session: SessionRecord) -> str:
    tags = conf.current().sessions.tags
    if not tags:
        return ""
    return session.tag if session.tag in tags else tags[0]


def _record(session: Session) -> SessionRecord:
    return SessionRecord(
        id=session.id,
        user_id=session.user_id,
        created_at=session.created_at or EPOCH,
        refreshed_at=session.refreshed_at,
        not_after=session.not_after,
        aal=session.aal or aal.AAL1,
        tag=session.tag,
    )

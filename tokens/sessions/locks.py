"""Locks the row of a user, so that a change sees the user and the session as they are."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import get_user_model

from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import ApiError
from tokens.sessions import aal, errors, users
from tokens.sessions.users import SignedInUser


def lock_signed_in_user(signed_in: SignedInUser) -> SignedInUser:
    """Lock the user's row and return the user and session as they are now. Must run inside a transaction.

    Hashing and outgoing requests lie between the check of a token and the write that it allows. In that time the
    session may be revoked or lose its second factor, and the user may be deleted, so writes check the returned state.
    Raises UserNotFoundForToken or SessionNotFound.
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
    if current.user.deleted_at is not None:
        raise errors.UserNotFoundForToken
    return current


def lock_for_credential_change(signed_in: SignedInUser, *, error: type[ApiError]) -> SignedInUser:
    """As `lock_signed_in_user`, for a change of sign-in methods: raises `error` where `check_aal` does."""
    locked = lock_signed_in_user(signed_in)
    aal.check_aal(locked, error=error)
    return locked


def lock_user(user_id: UUID) -> bool:
    """Lock the user's row; False when there is no such user."""
    rows = get_user_model()._default_manager.select_for_update()
    return rows.filter(pk=user_id).values_list("pk").first() is not None


def lock_user_against_deletion(user_id: UUID) -> None:
    """Let a deletion of the user wait for the end of the caller's transaction. One statement.

    A deletion locks the user before the rows that refer to the user, and so do transactions that begin with this call.
    It does not wait for sign-ins. Raises UserNotFoundForToken.
    """
    sql = f"SELECT id FROM {namespaced('users')} WHERE id = %s AND deleted_at IS NULL FOR KEY SHARE"  # noqa: S608  (own name)
    if fetch_row(sql, (user_id,)) is None:
        raise errors.UserNotFoundForToken

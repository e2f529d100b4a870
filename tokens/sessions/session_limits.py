"""Time limits of sessions, and the limit of one session per user and tag."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth import get_user_model

from authsvc import conf
from tokens.models import Session
from tokens.sessions import aal, errors
from tokens.sessions.users import EPOCH, SessionRecord, TokenUser


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
        and session.aal < aal.highest_aal(user)
        and at > session.created_at + limits.allow_low_aal
    ):
        raise errors.SessionExpired(errors.Expiry.LOW_AAL)


def is_within_limits(session: Session, *, user: TokenUser, at: datetime) -> bool:
    """True if no time limit of the session has passed."""
    try:
        check_limits(record_of(session), user=user, at=at)
    except errors.SessionExpired:
        return False
    return True


def record_of(session: Session) -> SessionRecord:
    """The values of a row that the limits depend on."""
    return SessionRecord(
        id=session.id,
        user_id=session.user_id,
        created_at=session.created_at or EPOCH,
        refreshed_at=session.refreshed_at,
        not_after=session.not_after,
        aal=session.aal or aal.AAL1,
        tag=session.tag,
    )


def check_single_session(session: SessionRecord, *, user: TokenUser, at: datetime) -> bool:
    """Lock the user's row and check that no session with the same tag was used more recently.

    Returns False when the row is locked by another request. Raises SessionExpired when a newer valid session exists.
    Must run inside the transaction of the refresh.
    """
    rows = get_user_model()._default_manager.select_for_update(skip_locked=True)
    if not rows.filter(pk=user.id).values_list("pk").first():
        return False
    for other in Session.objects.filter(user_id=user.id, impersonator_id=None).exclude(id=session.id):
        record = record_of(other)
        is_newer = _tag(record) == _tag(session) and last_used_at(record) > last_used_at(session)
        if is_newer and is_within_limits(other, user=user, at=at):
            raise errors.SessionExpired(errors.Expiry.NEWER_LOGIN)
    return True


def last_used_at(session: SessionRecord, token_used_at: datetime | None = None) -> datetime:
    """The last use of a session; `token_used_at` is that of an imported refresh token."""
    if session.refreshed_at is not None:
        return session.refreshed_at
    return max(session.created_at, token_used_at) if token_used_at else session.created_at


def _tag(session: SessionRecord) -> str:
    tags = conf.current().sessions.tags
    if not tags:
        return ""
    return session.tag if session.tag in tags else tags[0]

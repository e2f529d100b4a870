"""Impersonation: short sessions in which an operator uses the application as a user (RFC 8693 §1.1).

Such a session ends after 15 minutes at the latest, and at once when the operator's session in the console ends, or the
operator loses the access that impersonation needs. That costs one statement for each request of such a session, and
nothing for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf, operator_access
from authsvc.audit import Action, Administrator
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.operator_access import Access
from authsvc.security import crypto
from tokens.models import ImpersonationLink, Session
from tokens.sessions import aal, errors, session_events, session_limits, users
from tokens.sessions.users import SessionRecord, SignedInUser, TokenUser

METHOD = "impersonation"
"""The authentication method of the session (RFC 8176), and the type of the link that starts it."""
LIFETIME = timedelta(minutes=15)
LINK_LIFETIME = timedelta(minutes=2)
ACCESS = Access.ADMIN
"""A session of a user shows everything that the application shows to the user, as a sign-in link does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeemedLink:
    """A redeemed link."""

    user_id: UUID
    operator_session_id: UUID
    reason: str


def is_enabled() -> bool:
    return conf.current().console.enabled and conf.current().console.impersonation_enabled


def create_link(user_id: UUID, *, operator_session_id: UUID, reason: str, at: datetime) -> str:
    """Store a link and return its token. It replaces the earlier link of that console session.

    Joins the caller's transaction.
    """
    token = crypto.generate_link_token()
    with transaction.atomic(savepoint=False):
        ImpersonationLink.objects.filter(operator_session_id=operator_session_id).delete()
        ImpersonationLink.objects.create(
            link_hash=crypto.hash_link_token(token),
            user_id=user_id,
            operator_session_id=operator_session_id,
            reason=reason,
            created_at=at,
        )
    return token


def take_link(token: str, *, at: datetime) -> RedeemedLink | None:
    """Delete the link of a token and return it; None for a link that is used, expired or unknown.

    One statement. Must run inside a transaction.
    """
    sql = f"""
        DELETE FROM {namespaced("impersonation_links")} WHERE link_hash = %s AND created_at > %s
        RETURNING user_id, operator_session_id, reason
    """  # noqa: S608  (own table names)
    row = fetch_row(sql, (crypto.hash_link_token(token), at - LINK_LIFETIME))
    return RedeemedLink(user_id=row[0], operator_session_id=row[1], reason=row[2]) if row else None


def find_operator(session_id: UUID, *, at: datetime) -> tuple[TokenUser, SessionRecord] | None:
    """The operator who is signed in to the console with this session and may impersonate users. One statement."""
    if not is_enabled():
        return None
    found = users.user_source.find_by_session(session_id)
    if found is None or found.session is None or found.is_impersonated:
        return None
    user, session = found.user, found.session
    is_banned = user.banned_until is not None and at < user.banned_until
    if operator_access.access_of(user.role) is not ACCESS or is_banned or session.aal < aal.highest_aal(user):
        return None
    try:
        # The console counts inactivity in its cookie.
        session_limits.check_limits(session, user=user, at=at, token_used_at=at)
    except errors.SessionExpired:
        return None
    return user, session


def is_active(signed_in: SignedInUser, *, caller: Caller, at: datetime) -> bool:
    """True for a user's own session, and while the operator of an impersonated session may use it.

    Names the operator in the audit entries of the request. At most one statement.
    """
    session = signed_in.session
    if session is None or session.impersonator_session_id is None:
        return True
    if operator_access.access_of(signed_in.user.role) is not None:
        return False  # the user has become an operator
    operator = find_operator(session.impersonator_session_id, at=at)
    if operator is None or operator[0].id != session.impersonator_id:
        return False
    caller.audit.impersonator = administrator_of(operator[0])
    return True


def refuse(signed_in: SignedInUser, *, request: str, caller: Caller, at: datetime) -> NoReturn:
    """Record and raise ImpersonationNotAllowed. Call it outside a transaction.

    `request`: the method and route.
    """
    error = errors.ImpersonationNotAllowed()
    audit.record_refusal(
        Action.CHANGE_REFUSED,
        actor=signed_in.user,
        error_code=error.error_code,
        caller=caller,
        at=at,
        traits={"request": request},
    )
    raise error


def record_end(
    session: SessionRecord | Session, *, cause: str, actor: Administrator, caller: Caller, at: datetime
) -> None:
    """Record the end of an impersonated session. Joins the caller's transaction."""
    traits = {"user_id": str(session.user_id), "session_id": str(session.id), "cause": cause}
    audit.record(Action.IMPERSONATION_ENDED, actor=actor, caller=caller, at=at, traits=traits)


def sign_out(signed_in: SignedInUser, *, caller: Caller, at: datetime) -> None:
    """End an impersonated session whose operator `is_active` has named."""
    assert signed_in.session is not None  # noqa: S101  (narrowing; callers have checked)
    with transaction.atomic(durable=True):
        record_end(signed_in.session, cause="signed out", actor=caller.audit.impersonator, caller=caller, at=at)
        Session.objects.filter(id=signed_in.session.id)._raw_delete("default")
        session_events.record_end(signed_in.user.id, [signed_in.session.id], reason="logout_local")


def end_expired(*, at: datetime, limit: int) -> int:
    """Delete impersonated sessions that have expired, or whose operator has signed out, and record their end.

    Returns their number, at most `limit`.
    """
    with transaction.atomic(durable=True):
        candidates = Session.objects.select_for_update(skip_locked=True).filter(impersonator_id__isnull=False)
        ended = 0
        for session in candidates.order_by("impersonator_id")[:limit]:
            cause = _cause_of_end(session, at=at)
            if not cause:
                continue
            operator = users.user_source.find_user(session.impersonator_id) if session.impersonator_id else None
            actor = administrator_of(operator) if operator else Administrator(role="", user_id=session.impersonator_id)
            record_end(session, cause=cause, actor=actor, caller=Caller(), at=at)
            Session.objects.filter(id=session.id)._raw_delete("default")
            session_events.record_end(session.user_id, [session.id], reason="expired")
            ended += 1
    return ended


def administrator_of(user: TokenUser, *, reason: str = "") -> Administrator:
    """The operator as actor in the audit trail."""
    return Administrator(role=user.role, user_id=user.id, address=user.email or f"+{user.phone}", reason=reason)


def _cause_of_end(session: Session, *, at: datetime) -> str:
    """The reason why a session is over; empty while it may be used."""
    if session.not_after is None or at > session.not_after:
        return "expired"
    operator_session_id = session.impersonator_session_id
    if operator_session_id is None or find_operator(operator_session_id, at=at) is None:
        return "operator signed out"
    return ""

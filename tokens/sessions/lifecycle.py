"""Sign-ins: how one starts, how long it lasts, how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.contrib.auth import get_user_model
from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens import errors, queries
from tokens.jwt import access_tokens
from tokens.jwt.access_tokens import Issued
from tokens.models import AmrClaim, Session
from tokens.sessions import aal, refresh_tokens, subjects
from tokens.sessions.aal import AmrEntry
from tokens.sessions.subjects import BEGINNING, SessionFacts, SignedIn, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """What a client receives for a sign-in or a refresh."""

    issued: Issued = field(repr=False)
    refresh_token: str = field(repr=False)


def start(
    *, subject: Subject, method: str, caller: Caller, at: datetime, not_after: datetime | None = None
) -> TokenPair:
    """Begin a session that `subject` has just proved by `method`. Joins the caller's transaction.

    Callers note the sign-in on the user themselves, in the statement in which they change it anyway.
    """
    session_id = uuid4()
    key = crypto.generate_key()
    with transaction.atomic(savepoint=False):
        session = Session.objects.create(
            id=session_id,
            user_id=subject.id,
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
    facts = SessionFacts(id=session_id, user_id=subject.id, created_at=at)
    return TokenPair(
        issued=access_tokens.issue(subject=subject, session=facts, amr=[AmrEntry(method=method, at=at)], at=at),
        refresh_token=refresh_tokens.seal(session_id=session_id, counter=0, key=crypto.base64url_decode(key)),
    )


def check_limits(
    session: SessionFacts, *, subject: Subject, at: datetime, token_used_at: datetime | None = None
) -> None:
    """Raise SessionExpired when a time limit of the session has passed; the first limit passed is told.

    `token_used_at`: when an imported refresh token was last used, which counts as activity of its session.
    """
    limits = conf.current().sessions
    if session.not_after is not None and at > session.not_after:
        raise errors.SessionExpired
    if limits.timebox is not None and at > session.created_at + limits.timebox:
        raise errors.SessionExpired
    if limits.inactivity_timeout is not None and at > last_used(session, token_used_at) + limits.inactivity_timeout:
        raise errors.SessionExpired(errors.Expiry.INACTIVITY)
    if (
        limits.allow_low_aal is not None
        and session.aal < aal.highest_possible(subject)
        and at > session.created_at + limits.allow_low_aal
    ):
        raise errors.SessionExpired(errors.Expiry.LOW_AAL)


def check_single(session: SessionFacts, *, subject: Subject, at: datetime) -> bool:
    """Whether this is the user's most recently used session of its tag; False when the user row is locked elsewhere.

    Raises SessionExpired when a newer valid session exists. To be called inside the transaction of the refresh.
    """
    users = get_user_model()._default_manager.select_for_update(skip_locked=True)
    if not users.filter(pk=subject.id).values_list("pk").first():
        return False
    for other in Session.objects.filter(user_id=subject.id).exclude(id=session.id):
        facts = _facts(other)
        if _tag(facts) == _tag(session) and last_used(facts) > last_used(session) and _is_valid(facts, subject, at):
            raise errors.SessionExpired(errors.Expiry.NEWER_LOGIN)
    return True


def last_used(session: SessionFacts, token_used_at: datetime | None = None) -> datetime:
    if session.refreshed_at is not None:
        return session.refreshed_at
    return max(session.created_at, token_used_at) if token_used_at else session.created_at


def hold(signed_in: SignedIn) -> SignedIn:
    """A sign-in as it stands now, in a transaction in which nobody raises, lowers or evicts it, nor changes its user.

    Between the check of a token and the write that it allows lie hashes and calls to others, in which the owner may
    have thrown a thief out, or an operator taken the factor away that raised the session. What a write asks of a
    sign-in, it asks of this one. Raises UserNotFoundForToken or SessionNotFound.
    """
    if not hold_user(signed_in.subject.id):
        raise errors.UserNotFoundForToken
    session_id = signed_in.session.id if signed_in.session is not None else None
    # A statement of its own: what else than the user it reads is then not from before the wait.
    now = subjects.user_source.get().signed_in(user_id=signed_in.subject.id, session_id=session_id)
    if now is None:
        raise errors.UserNotFoundForToken
    if session_id is not None and now.session is None:
        raise errors.SessionNotFound
    return now


def hold_user(user_id: UUID) -> bool:
    """Wait for whoever holds a sign-in of this user, and have others wait; whether there is such a user."""
    users = get_user_model()._default_manager.select_for_update()
    return users.filter(pk=user_id).values_list("pk").first() is not None


def log_out(signed_in: SignedIn, *, scope: str, caller: Caller, at: datetime) -> None:
    """End sessions of a user: all (`global`), this one (`local`) or the other ones (`others`).

    Raises UnsupportedLogoutScope. A token without a session ends them all, whatever the scope.
    """
    if scope not in ("", "global", "local", "others"):
        raise errors.UnsupportedLogoutScope(scope)
    mine = signed_in.session.id if signed_in.session else None
    with transaction.atomic(durable=True):
        audit.record(audit.Action.LOGOUT, actor=signed_in.subject, caller=caller, at=at)
        if mine and scope == "local":
            # The foreign keys cascade in the database; Django's own cascade would read every dependent row first.
            Session.objects.filter(id=mine)._raw_delete("default")
        else:
            revoke_all(signed_in.subject.id, but=mine if scope == "others" else None)


def revoke_all(user_id: UUID, *, but: UUID | None = None) -> None:
    """End every session of a user, or all but one, and whatever linking of an identity one of them has begun.

    One statement; joins the caller's transaction.
    """
    with transaction.atomic(savepoint=False):
        queries.end_sessions(user_id=user_id, but=but)


def revoke(session_id: UUID) -> None:
    """End a session that may be in the wrong hands, and whatever linking of an identity its user has under way.

    One statement; joins the caller's transaction.
    """
    with transaction.atomic(savepoint=False):
        queries.end_session(session_id=session_id)


def _is_valid(session: SessionFacts, subject: Subject, at: datetime) -> bool:
    try:
        check_limits(session, subject=subject, at=at)
    except errors.SessionExpired:
        return False
    return True


def _tag(session: SessionFacts) -> str:
    tags = conf.current().sessions.tags
    if not tags:
        return ""
    return session.tag if session.tag in tags else tags[0]


def _facts(session: Session) -> SessionFacts:
    return SessionFacts(
        id=session.id,
        user_id=session.user_id,
        created_at=session.created_at or BEGINNING,
        refreshed_at=session.refreshed_at,
        not_after=session.not_after,
        aal=session.aal or aal.AAL1,
        tag=session.tag,
    )

"""Raising a session by a second factor, and lowering it again when the factor is gone."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens import errors
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, LegacyRefreshToken, Session
from tokens.sessions import aal, refresh, refresh_tokens
from tokens.sessions.aal import AmrEntry
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.subjects import SignedIn, Subject

_CHANGED = ("aal", "factor_id", "refresh_token_hmac_key", "refresh_token_counter", "updated_at")
_STEP = 2
"""One more than what a repeated refresh may be behind, so that no token from before is ever good for the session."""


def step_up(
    signed_in: SignedIn, *, subject: Subject, method: str, factor_id: UUID | None, caller: Caller, at: datetime
) -> TokenPair | None:
    """Raise the session to `aal2` and end every other one that is below; joins the caller's transaction.

    `subject` is the user as the new access token is to show them. Every refresh token handed out before is spent.
    None when another request holds the session: the caller rolls back and tries again.
    Raises SessionNotFound for a session that has ended.
    """
    assert signed_in.session is not None  # noqa: S101  (narrowing; callers have checked)
    session_id = signed_in.session.id
    with transaction.atomic(savepoint=False):
        # Before the session is locked, so that whoever waits here holds nothing that others wait for.
        Session.objects.filter(user_id=subject.id, aal__lt=aal.AAL2).exclude(id=session_id)._raw_delete("default")
        locked = Session.objects.select_for_update(skip_locked=True).filter(id=session_id).first()
        if locked is None:
            if not Session.objects.filter(id=session_id).exists():
                raise errors.SessionNotFound
            return None
        key = _advance(locked, subject=subject, caller=caller, at=at)
        locked.aal, locked.factor_id, locked.updated_at = aal.AAL2, factor_id, at
        locked.save(update_fields=_CHANGED)
        _note_method(locked, method=method, at=at)
        amr = [
            AmrEntry(method=name, at=used_at)
            for name, used_at in AmrClaim.objects.filter(session_id=session_id).values_list(
                "authentication_method", "updated_at"
            )
        ]
    facts = dataclasses.replace(signed_in.session, aal=aal.AAL2)
    counter = locked.refresh_token_counter or 0
    return TokenPair(
        issued=access_tokens.issue(subject=subject, session=facts, amr=amr, at=at),
        refresh_token=refresh_tokens.seal(session_id=session_id, counter=counter, key=crypto.base64url_decode(key)),
    )


def step_down(user_id: UUID, *, factor_id: UUID | None = None) -> None:
    """Take back what a second factor has proved, or what any has, in the sessions of its user.

    With the factor goes every method that might have been its own, so that the level in the row and the one that the
    next access token computes from the methods stay the same. Joins the caller's transaction.
    """
    proved = Session.objects.filter(user_id=user_id, aal=aal.AAL2)
    if factor_id is not None:
        proved = proved.filter(factor_id=factor_id)
    with transaction.atomic(savepoint=False):
        lowered = list(proved.select_for_update().order_by("id").values_list("id", flat=True))
        if not lowered:
            return
        AmrClaim.objects.filter(session_id__in=lowered, authentication_method__in=aal.SECOND_FACTORS)._raw_delete(
            "default"
        )
        Session.objects.filter(id__in=lowered).update(aal=aal.AAL1, factor_id=None)


def _advance(session: Session, *, subject: Subject, caller: Caller, at: datetime) -> str:
    """Leave every refresh token handed out so far behind; the key that the next one is sealed with."""
    config = conf.current().refresh
    # Where old tokens are given the newest one instead of being refused, it takes more than a higher counter.
    is_lenient = config.allow_reuse or not config.rotation_enabled
    key = None
    if session.refresh_token_hmac_key is not None and session.refresh_token_counter is not None:
        key = refresh.open_key(session.refresh_token_hmac_key, session_id=session.id)
    else:
        # An imported session, whose tokens have rows of their own.
        imported = LegacyRefreshToken.objects.filter(session_id=session.id)
        if is_lenient:
            imported._raw_delete("default")
        else:
            imported.filter(revoked=False).update(revoked=True, updated_at=at)
        audit.record(audit.Action.TOKEN_REVOKED, actor=subject, caller=caller, at=at)
    if key is None or is_lenient:
        key = crypto.generate_key()
        session.refresh_token_hmac_key = encryption.encrypt(key, bound_to=session.id)
    session.refresh_token_counter = (session.refresh_token_counter or 0) + _STEP
    return key


def _note_method(session: Session, *, method: str, at: datetime) -> None:
    AmrClaim.objects.bulk_create(
        [AmrClaim(session=session, authentication_method=method, created_at=at, updated_at=at)],
        update_conflicts=True,
        unique_fields=["session", "authentication_method"],
        update_fields=["updated_at"],
    )

"""Raises a session to aal2 with a second factor, and lowers it when the factor is removed."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens.jwt.access_tokens import AmrEntry
from tokens.models import AmrClaim, LegacyRefreshToken, Session
from tokens.sessions import aal, errors, lifecycle, refresh, refresh_tokens, revocation, session_events
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser, TokenUser

_CHANGED_FIELDS = ("aal", "factor_id", "refresh_token_hmac_key", "refresh_token_counter", "updated_at")


def step_up(
    signed_in: SignedInUser, *, user: TokenUser, method: str, factor_id: UUID | None, caller: Caller, at: datetime
) -> TokenPair | None:
    """Raise the session to `aal2` and revoke the user's other sessions below it. Joins a `token_transaction`.

    `user` is the state that the new access token contains. All earlier refresh tokens of the session become invalid.
    Returns None when another request has locked the session: the caller rolls back and retries.
    Raises SessionNotFound when the session has ended, ImpersonationNotAllowed for an operator's session, and the errors
    of the claims hook.
    """
    if signed_in.is_impersonated:
        raise errors.ImpersonationNotAllowed
    assert signed_in.session is not None  # noqa: S101  (narrowing; callers have checked)
    session_id = signed_in.session.id
    with transaction.atomic(savepoint=False):
        # Before the session is locked, so that a request that waits here holds no lock.
        revocation.revoke_weaker_sessions(user.id, except_session_id=session_id)
        locked = Session.objects.select_for_update(skip_locked=True).filter(id=session_id).first()
        if locked is None:
            if not Session.objects.filter(id=session_id).exists():
                raise errors.SessionNotFound
            return None
        key = _invalidate_refresh_tokens(locked, user=user, caller=caller, at=at)
        locked.aal, locked.factor_id, locked.updated_at = aal.AAL2, factor_id, at
        locked.save(update_fields=_CHANGED_FIELDS)
        _record_method(locked, method=method, at=at)
        amr = [
            AmrEntry(method=name, at=used_at)
            for name, used_at in AmrClaim.objects.filter(session_id=session_id).values_list(
                "authentication_method", "updated_at"
            )
        ]
    record = dataclasses.replace(signed_in.session, aal=aal.AAL2)
    session_events.record_upgrade(user, record, method=method, factor_id=factor_id, at=at)
    counter = locked.refresh_token_counter or 0
    return TokenPair(
        access=lifecycle.issue_access_token(user=user, session=record, amr=amr, method=method, caller=caller, at=at),
        refresh_token=refresh_tokens.encode(session_id=session_id, counter=counter, key=crypto.base64url_decode(key)),
    )


def step_down(user_id: UUID, *, factor_id: UUID | None = None) -> None:
    """Lower the sessions that this second factor, or any, has raised to `aal1`. Joins the caller's transaction.

    Deletes all second-factor methods of these sessions, so that the level in the row equals the level that the next
    access token computes from the methods.
    """
    raised = Session.objects.filter(user_id=user_id, aal=aal.AAL2)
    if factor_id is not None:
        raised = raised.filter(factor_id=factor_id)
    with transaction.atomic(savepoint=False):
        lowered = list(raised.select_for_update().order_by("id").values_list("id", flat=True))
        if not lowered:
            return
        AmrClaim.objects.filter(session_id__in=lowered, authentication_method__in=aal.SECOND_FACTORS)._raw_delete(
            "default"
        )
        Session.objects.filter(id__in=lowered).update(aal=aal.AAL1, factor_id=None)


def _invalidate_refresh_tokens(session: Session, *, user: TokenUser, caller: Caller, at: datetime) -> str:
    """Invalidate all refresh tokens of a session; return the key of the next one."""
    config = conf.current().refresh
    # These settings accept refresh tokens with an older counter, so the key has to change as well.
    is_lenient = config.allow_reuse or not config.rotation_enabled
    key = None
    if session.refresh_token_hmac_key is not None and session.refresh_token_counter is not None:
        key = refresh.decrypt_key(session.refresh_token_hmac_key, session_id=session.id)
    else:
        # An imported session: its tokens are rows.
        imported = LegacyRefreshToken.objects.filter(session_id=session.id)
        if is_lenient:
            imported._raw_delete("default")
        else:
            imported.filter(revoked=False).update(revoked=True, updated_at=at)
        audit.record(audit.Action.TOKEN_REVOKED, actor=user, caller=caller, at=at)
    if key is None or is_lenient:
        key = crypto.generate_key()
        session.refresh_token_hmac_key = encryption.encrypt(key, bound_to=session.id, always=True)
    session.refresh_token_counter = (session.refresh_token_counter or 0) + refresh_tokens.STEP_UP_DISTANCE
    return key


def _record_method(session: Session, *, method: str, at: datetime) -> None:
    AmrClaim.objects.bulk_create(
        [AmrClaim(session=session, authentication_method=method, created_at=at, updated_at=at)],
        update_conflicts=True,
        unique_fields=["session", "authentication_method"],
        update_fields=["updated_at"],
    )

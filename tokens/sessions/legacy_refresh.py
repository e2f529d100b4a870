"""Refresh tokens of an imported database: each string is good for one refresh, which converts its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import F

from authsvc import conf
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens import errors
from tokens.models import LegacyRefreshToken, Session
from tokens.sessions import refresh_tokens
from tokens.sessions.subjects import SessionFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    id: int
    token: str = field(repr=False)
    session_id: UUID
    revoked: bool
    updated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`refresh_token` is None when reuse was detected; the revocations that follow from it are to be committed."""

    refresh_token: str | None = field(repr=False)
    converted: bool = False


def find(token: str) -> Found:
    """The row of a legacy string. A row without a session is deleted and refused as NoValidSession."""
    row = LegacyRefreshToken.objects.filter(token=token).first()
    if row is None:
        raise errors.RefreshTokenNotFound
    if row.session_id is None:
        row.delete()
        raise errors.NoValidSession
    return Found(
        id=row.id, token=token, session_id=row.session_id, revoked=bool(row.revoked), updated_at=row.updated_at
    )


def was_converted(found: Found) -> bool:
    """Whether it was this token whose refresh converted its session: no row of the session was touched later."""
    # An imported row may not say when it changed, and the database puts that last only when told to.
    latest_first = F("updated_at").desc(nulls_last=True), "-id"
    newest = LegacyRefreshToken.objects.filter(session_id=found.session_id).order_by(*latest_first).first()
    return newest is not None and newest.id == found.id


def exchange(found: Found, *, session: SessionFacts, caller: Caller, at: datetime) -> Outcome | None:
    """Decide about a token of a session that is not converted, inside the caller's transaction.

    None when another request holds the rows or has just converted the session. Raises RefreshTokenReused where
    nothing is to be revoked.
    """
    locked = LegacyRefreshToken.objects.select_for_update(skip_locked=True).filter(id=found.id).first()
    row = Session.objects.select_for_update(skip_locked=True).filter(id=session.id).first()
    if locked is None or row is None or row.refresh_token_counter is not None:
        return None
    rows = LegacyRefreshToken.objects.filter(session_id=session.id)
    active = rows.filter(revoked=False).order_by("-id").first()
    config = conf.current().refresh
    if not locked.revoked:
        return _convert(locked, row, caller=caller, at=at)
    inside = locked.updated_at is not None and at <= locked.updated_at + config.reuse_interval
    is_predecessor = active is not None and active.parent == locked.token
    if active is not None and (config.allow_reuse or (is_predecessor and (inside or not config.rotation_enabled))):
        _touch(row, caller=caller, at=at)
        return Outcome(refresh_token=active.token)
    if config.rotation_enabled:
        rows.filter(revoked=False).update(revoked=True, updated_at=at)
        return Outcome(refresh_token=None)
    if inside:
        return _convert(locked, row, caller=caller, at=at)
    raise errors.RefreshTokenReused


def _convert(token: LegacyRefreshToken, session: Session, *, caller: Caller, at: datetime) -> Outcome:
    key = crypto.generate_key()
    session.refresh_token_hmac_key = encryption.encrypt(key, bound_to=session.id)
    session.refresh_token_counter = 0
    _touch(session, caller=caller, at=at)
    # Only this row gets the time: it marks the token that stands just before the first counter token.
    LegacyRefreshToken.objects.filter(id=token.id).update(revoked=True, updated_at=at)
    LegacyRefreshToken.objects.filter(session_id=session.id, revoked=False).update(revoked=True)
    sealed = refresh_tokens.seal(session_id=session.id, counter=0, key=crypto.base64url_decode(key))
    return Outcome(refresh_token=sealed, converted=True)


def _touch(session: Session, *, caller: Caller, at: datetime) -> None:
    session.refreshed_at = at
    session.updated_at = at
    session.user_agent = caller.user_agent or None
    session.ip = caller.address or None
    session.save()

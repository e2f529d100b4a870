"""Refresh tokens of an imported database: one refresh each, which converts the session to counter tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import F

from authsvc import conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows
from authsvc.security import crypto, encryption
from tokens.models import LegacyRefreshToken, Session
from tokens.sessions import errors, refresh_tokens
from tokens.sessions.users import SessionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyToken:
    id: int
    token: str = field(repr=False)
    session_id: UUID
    revoked: bool
    updated_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyExchange:
    """`refresh_token` is None after a detected reuse; the caller commits the revocations that it caused."""

    refresh_token: str | None = field(repr=False)
    converted: bool = False


def find(token: str) -> LegacyToken:
    """The row of a legacy token. Raises RefreshTokenNotFound, and NoValidSession after deleting an orphaned row."""
    # An import by a former version has stored the token itself. A digest is longer, so it is not taken for a token.
    row = LegacyRefreshToken.objects.filter(token__in=[crypto.key_digest(token), token]).first()
    if row is None:
        raise errors.RefreshTokenNotFound
    if row.session_id is None:
        row.delete()
        raise errors.NoValidSession
    return LegacyToken(
        id=row.id, token=token, session_id=row.session_id, revoked=bool(row.revoked), updated_at=row.updated_at
    )


def hash_stored_tokens(table: str) -> None:
    """Replace the tokens of another server, in a table with the columns of legacy tokens, by keyed digests."""
    digests = ", ".join(f"{column} = {crypto.key_digest_sql(column)}" for column in ("token", "parent"))
    fetch_rows(f"UPDATE {table} SET {digests}", crypto.digest_key_pads())  # noqa: S608  (own table names)


def caused_conversion(legacy: LegacyToken) -> bool:
    """True if the refresh of this token converted its session: no token of the session changed later."""
    # `updated_at` of an imported row may be NULL, which PostgreSQL sorts first by default.
    latest_first = F("updated_at").desc(nulls_last=True), "-id"
    newest = LegacyRefreshToken.objects.filter(session_id=legacy.session_id).order_by(*latest_first).first()
    return newest is not None and newest.id == legacy.id


def exchange(legacy: LegacyToken, *, session: SessionRecord, caller: Caller, at: datetime) -> LegacyExchange | None:
    """Exchange a token of a session that is not converted, inside the caller's transaction.

    Returns None when another request has locked the rows or has just converted the session. Raises RefreshTokenReused
    when nothing has to be revoked.
    """
    locked = LegacyRefreshToken.objects.select_for_update(skip_locked=True).filter(id=legacy.id).first()
    row = Session.objects.select_for_update(skip_locked=True).filter(id=session.id).first()
    if locked is None or row is None or row.refresh_token_counter is not None:
        return None
    rows = LegacyRefreshToken.objects.filter(session_id=session.id)
    active = rows.filter(revoked=False).order_by("-id").first()
    config = conf.current().refresh
    if not locked.revoked:
        return _convert(locked, row, caller=caller, at=at)
    is_in_reuse_interval = locked.updated_at is not None and at <= locked.updated_at + config.reuse_interval
    is_predecessor = active is not None and active.parent == locked.token
    if active is not None and (
        config.allow_reuse or (is_predecessor and (is_in_reuse_interval or not config.rotation_enabled))
    ):
        if not refresh_tokens.is_legacy(active.token or ""):
            return _convert(active, row, caller=caller, at=at)  # only its digest is stored
        _touch(row, caller=caller, at=at)
        return LegacyExchange(refresh_token=active.token)
    if config.rotation_enabled:
        rows.filter(revoked=False).update(revoked=True, updated_at=at)
        return LegacyExchange(refresh_token=None)
    if is_in_reuse_interval:
        return _convert(locked, row, caller=caller, at=at)
    raise errors.RefreshTokenReused


def _convert(token: LegacyRefreshToken, session: Session, *, caller: Caller, at: datetime) -> LegacyExchange:
    key = crypto.generate_key()
    session.refresh_token_hmac_key = encryption.encrypt(key, bound_to=session.id, always=True)
    session.refresh_token_counter = 0
    _touch(session, caller=caller, at=at)
    # Only this row gets the time, which marks it as the predecessor of the first counter token.
    LegacyRefreshToken.objects.filter(id=token.id).update(revoked=True, updated_at=at)
    LegacyRefreshToken.objects.filter(session_id=session.id, revoked=False).update(revoked=True)
    refresh_token = refresh_tokens.encode(session_id=session.id, counter=0, key=crypto.base64url_decode(key))
    return LegacyExchange(refresh_token=refresh_token, converted=True)


def _touch(session: Session, *, caller: Caller, at: datetime) -> None:
    session.refreshed_at = at
    session.updated_at = at
    session.user_agent = caller.user_agent or None
    session.ip = caller.address or None
    session.save()

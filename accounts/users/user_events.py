"""Lifecycle events of users and of their identities, factors and passkeys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.models import FactorStatus, Identity
from accounts.users import queries, records
from accounts.users.records import FactorRecord, IdentityRecord, UserRecord
from authsvc import events
from authsvc.events import EventType

_COLUMNS = {
    "app_metadata": "app_metadata_json",
    "banned_until": "banned_until",
    "email": "email",
    "is_anonymous": "is_anonymous",
    "password": "password_hash",
    "phone": "phone",
    "role": "role",
    "user_metadata": "user_metadata_json",
}
"""Names in `changed`, in their order, with the field of the record."""


def record_creation(user: UserRecord, *, provider: str, via: str, at: datetime) -> None:
    """Record a new user and the confirmed contacts. Joins the caller's transaction."""
    _record(EventType.USER_CREATED, user, {"provider": provider, "via": via}, at=at)
    for contact in _confirmed(None, user):
        _record(EventType.USER_CONFIRMED, user, {"what": contact}, at=at)


def record_invitation(user: UserRecord, *, at: datetime) -> None:
    """Record that a user is invited. Joins the caller's transaction."""
    _record(EventType.USER_INVITED, user, {}, at=at)


def record_deletion(user_id: UUID, *, email: str, phone: str, is_soft: bool, at: datetime) -> None:
    """Record the deletion of a user. Joins the caller's transaction."""
    remaining = {"id": str(user_id), "email": email, "phone": phone}
    data = {"soft": is_soft}
    events.record(EventType.USER_DELETED, user_id=user_id, user=lambda: remaining, data=data, at=at)


def record_changes(before: UserRecord, after: UserRecord, *, at: datetime) -> None:
    """Record the confirmations and the change of a user. Joins the caller's transaction."""
    for contact in _confirmed(before, after):
        _record(EventType.USER_CONFIRMED, after, {"what": contact}, at=at)
    changed = [name for name, field in _COLUMNS.items() if getattr(before, field) != getattr(after, field)]
    if changed:
        _record(EventType.USER_UPDATED, after, {"changed": changed}, at=at)


@contextmanager
def changes_of(user: UserRecord, *, at: datetime) -> Iterator[None]:
    """Record what the block changes in a user. Must run inside a transaction. One statement if an event is recorded."""
    yield
    if events.is_recorded(EventType.USER_UPDATED) or events.is_recorded(EventType.USER_CONFIRMED):
        after = queries.get(user.id)
        if after is not None:
            record_changes(user, after, at=at)


def record_identity(type: EventType, user_id: UUID, identity: Identity | IdentityRecord, *, at: datetime) -> None:
    """Record a linked or unlinked identity. Joins the caller's transaction."""
    _record_part(type, user_id, lambda: {"identity": _describe_identity(identity, user_id=user_id)}, at=at)


def record_factor(
    type: EventType, user_id: UUID, *, factor_id: str, factor_type: str, friendly_name: str, at: datetime
) -> None:
    """Record an enrolled or removed factor. Joins the caller's transaction."""
    factor = {"id": factor_id, "factor_type": factor_type, "friendly_name": friendly_name}
    _record_part(type, user_id, {"factor": factor}, at=at)


def record_factor_removal(user_id: UUID, factor: FactorRecord, *, at: datetime) -> None:
    """Record the removal of a factor that was verified; of any other one nothing. Joins the caller's transaction."""
    if factor.status == FactorStatus.VERIFIED:
        record_factor(
            EventType.FACTOR_UNENROLLED,
            user_id,
            factor_id=factor.id,
            factor_type=factor.factor_type,
            friendly_name=factor.friendly_name or "",
            at=at,
        )


def record_passkey(type: EventType, user_id: UUID, *, passkey_id: str, friendly_name: str, at: datetime) -> None:
    """Record a new or deleted passkey. Joins the caller's transaction."""
    _record_part(type, user_id, {"passkey": {"id": passkey_id, "friendly_name": friendly_name}}, at=at)


def _record(type: EventType, user: UserRecord, data: Mapping[str, Any], *, at: datetime) -> None:
    events.record(type, user_id=user.id, user=lambda: records.render_user(user), data=data, at=at)


def _record_part(
    type: EventType, user_id: UUID, data: Mapping[str, Any] | Callable[[], Mapping[str, Any]], *, at: datetime
) -> None:
    """Record an event about a part of a user, who is read only if a sink is subscribed."""
    events.record(type, user_id=user_id, user=lambda: _read(user_id), data=data, at=at)


def _read(user_id: UUID) -> dict[str, Any]:
    user = queries.get(user_id)
    return records.render_user(user) if user else {"id": str(user_id)}


def _describe_identity(identity: Identity | IdentityRecord, *, user_id: UUID) -> dict[str, Any]:
    if isinstance(identity, IdentityRecord):
        return records.render_identity(identity, user_id=str(user_id))
    return {
        "identity_id": str(identity.id),
        "id": identity.provider_id,
        "user_id": str(user_id),
        "identity_data": identity.identity_data,
        "provider": identity.provider,
    }


def _confirmed(before: UserRecord | None, after: UserRecord) -> Iterator[str]:
    for contact in ("email", "phone"):
        name = f"{contact}_confirmed_at"
        if getattr(after, name) is not None and (before is None or getattr(before, name) is None):
            yield contact

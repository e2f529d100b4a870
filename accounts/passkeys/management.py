"""Listing, renaming and removing passkeys, by their user or an administrator."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.models import Passkey
from accounts.passkeys import errors
from accounts.users import user_events
from accounts.users.records import UserRecord
from authsvc import audit, events
from authsvc.api.renderers import rfc3339
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.events import EventType
from tokens.sessions import locks
from tokens.sessions.users import SignedInUser

MAX_NAME_BYTES = 120
"""Maximum size of a name in UTF-8 bytes."""


def list_passkeys(user: UserRecord) -> list[Passkey]:
    """The passkeys of a user, oldest first."""
    return list(Passkey.objects.filter(user_id=user.id).order_by("created_at", "id"))


def rename(user: UserRecord, passkey_id: UUID, *, friendly_name: str, caller: Caller, at: datetime) -> Passkey:
    """Rename a passkey. Raises PasskeyNameMissing, PasskeyNameTooLong or PasskeyNotFound."""
    if not friendly_name:
        raise errors.PasskeyNameMissing
    if len(friendly_name.encode()) > MAX_NAME_BYTES:
        raise errors.PasskeyNameTooLong
    with transaction.atomic(durable=True):
        passkey = Passkey.objects.select_for_update().filter(id=passkey_id, user_id=user.id).first()
        if passkey is None:
            raise errors.PasskeyNotFound
        passkey.friendly_name, passkey.updated_at = friendly_name, at
        passkey.save(update_fields=["friendly_name", "updated_at"])
        traits = {"passkey_id": str(passkey_id)}
        audit.record(audit.Action.PASSKEY_UPDATED, actor=user, caller=caller, at=at, traits=traits)
    return passkey


def remove(signed_in: SignedInUser, user: UserRecord, passkey_id: UUID | None, *, caller: Caller, at: datetime) -> None:
    """Remove a passkey of the signed-in user; its sessions stay. Raises PasskeysNeedAal2 or PasskeyNotFound.

    `passkey_id` is None for a malformed id.
    """
    with transaction.atomic(durable=True):
        locks.lock_for_credential_change(signed_in, error=errors.PasskeysNeedAal2)
        _delete(user.id, passkey_id, at=at)
        traits = {"passkey_id": str(passkey_id)}
        audit.record(audit.Action.PASSKEY_DELETED, actor=user, caller=caller, at=at, traits=traits)


def remove_as_admin(
    user: UserRecord, passkey_id: UUID | None, *, actor: Administrator, caller: Caller, at: datetime
) -> None:
    """Remove a passkey of any user. Raises PasskeyNotFound; `passkey_id` is None for a malformed id."""
    with transaction.atomic(durable=True):
        _delete(user.id, passkey_id, at=at)
        traits = {"user_id": str(user.id), "passkey_id": str(passkey_id)}
        audit.record(audit.Action.PASSKEY_DELETED, actor=actor, caller=caller, at=at, traits=traits)


def render_passkey(passkey: Passkey) -> dict[str, Any]:
    """The Passkey object of the API."""
    members = {"id": str(passkey.id), "created_at": rfc3339(passkey.created_at)}
    if passkey.friendly_name:
        members["friendly_name"] = passkey.friendly_name
    if passkey.last_used_at:
        members["last_used_at"] = rfc3339(passkey.last_used_at)
    return members


def _delete(user_id: UUID, passkey_id: UUID | None, *, at: datetime) -> None:
    if passkey_id is None:
        raise errors.PasskeyNotFound
    rows = Passkey.objects.filter(id=passkey_id, user_id=user_id)
    name = rows.values_list("friendly_name", flat=True).first() if events.is_recorded(EventType.PASSKEY_DELETED) else ""
    if not rows.delete_rows():
        raise errors.PasskeyNotFound
    user_events.record_passkey(
        EventType.PASSKEY_DELETED, user_id, passkey_id=str(passkey_id), friendly_name=name or "", at=at
    )

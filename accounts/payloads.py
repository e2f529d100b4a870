"""Users and identities as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from accounts.records import FactorRecord, IdentityRecord, UserRecord
from authsvc.core import clock

_OPTIONAL_TIMES = (
    "email_confirmed_at",
    "invited_at",
    "phone_confirmed_at",
    "confirmation_sent_at",
    "confirmed_at",
    "recovery_sent_at",
    "email_change_sent_at",
    "phone_change_sent_at",
    "reauthentication_sent_at",
    "last_sign_in_at",
    "banned_until",
    "deleted_at",
)


def user(record: UserRecord) -> dict[str, Any]:
    """The User object: strings never null, absent times left out, metadata passed through as text."""
    shown: dict[str, Any] = {
        "id": str(record.id),
        "aud": record.aud,
        "role": record.role,
        "email": record.email,
        "phone": record.phone,
    }
    for name in _OPTIONAL_TIMES:
        moment: datetime | None = getattr(record, name)
        if moment is not None:
            shown[name] = clock.text(moment)
    if record.email_change:
        shown["new_email"] = record.email_change
    if record.phone_change:
        shown["new_phone"] = record.phone_change
    shown["app_metadata"] = orjson.Fragment(record.app_metadata_json)
    shown["user_metadata"] = orjson.Fragment(record.user_metadata_json)
    if record.factors:
        shown["factors"] = [factor(each) for each in record.factors]
    shown["identities"] = [identity(each, user_id=str(record.id)) for each in record.identities]
    shown["created_at"] = clock.text(record.created_at)
    shown["updated_at"] = clock.text(record.updated_at)
    shown["is_anonymous"] = record.is_anonymous
    return shown


def identity(record: IdentityRecord, *, user_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "identity_id": record.id,
        "id": record.provider_id,
        "user_id": user_id,
        "identity_data": orjson.Fragment(record.data_json),
        "provider": record.provider,
    }
    if record.last_sign_in_at:
        shown["last_sign_in_at"] = record.last_sign_in_at
    shown["created_at"] = record.created_at
    shown["updated_at"] = record.updated_at
    if record.email:
        shown["email"] = record.email
    return shown


def factor(record: FactorRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": record.id,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "status": record.status,
        "factor_type": record.factor_type,
        "phone": record.phone or "",
        "last_challenged_at": record.last_challenged_at,
    }
    if record.friendly_name:
        shown["friendly_name"] = record.friendly_name
    if record.web_authn_aaguid:
        shown["web_authn_aaguid"] = record.web_authn_aaguid
    return shown

"""Users, identities and factors as the API shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from accounts.users.records import USER_FIELDS, FactorRecord, Field, IdentityRecord, UserRecord
from authsvc.api.renderers import rfc3339

_Write = Callable[[Any], Any]


def user(record: UserRecord) -> dict[str, Any]:
    """The User object: strings never null, empty optional members left out, metadata passed through as text."""
    shown: dict[str, Any] = {}
    for (member, is_optional, write), value in zip(_MEMBERS, _values(record), strict=True):
        if value:
            shown[member] = write(value) if write else value
        elif not is_optional:
            shown[member] = value
    user_id = shown["id"]
    shown["identities"] = [identity(each, user_id=user_id) for each in record.identities]
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


def factors(records: Iterable[FactorRecord]) -> list[dict[str, Any]]:
    return [factor(each) for each in records]


def _write(field: Field) -> _Write | None:
    if field.is_json:
        return orjson.Fragment
    if field.type == datetime | None:
        return rfc3339
    special: dict[str, _Write] = {"id": str, "factors": factors}
    return special.get(field.name)


_MEMBERS = [(each.member, each.is_optional, _write(each)) for each in USER_FIELDS if each.member]
_values = attrgetter(*(each.name for each in USER_FIELDS if each.member))

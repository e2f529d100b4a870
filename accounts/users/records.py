"""The user as services and responses need it: one description of its columns yields select list, record and JSON.

A new column of the user takes a field in `accounts.models.User` and one in `UserRecord`; if the API shows it, also its
description in `accounts.schemas.User`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints
from uuid import UUID

import orjson

from authsvc.api.renderers import rfc3339
from authsvc.db.fields import parse_json
from authsvc.db.sql import json_object, namespaced

Row = tuple[Any, ...]
_Writer = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """The column behind a field of a record, and the member of the JSON object that the API makes of it."""

    sql: str = "{table}.{name}"
    """Expression of the select list."""
    name: str = ""
    """Name of the column where it is not that of the field."""
    member: str | None = ""
    """Member of the JSON object where it is not named as the field; None for a field that no response contains."""
    is_optional: bool = False
    """True if the JSON object lacks the member when the value is empty."""
    is_json: bool = False
    """True if the field holds JSON as text, which is never parsed on its way into a response."""


_TEXT = "coalesce({table}.{name}, '')"
# Clients expect an object, whatever a program has written into the row.
_JSON = json_object("{table}.{name}").replace("'{}'", "'{{}}'")
# The database writes the wire format, so that moments in JSON arrays are not parsed and formatted again.
# Times that `authsvc.db.timestamps` replaces are replaced here too.
_STAMP = """CASE WHEN {table}.{name} < '0001-01-02 00:00:00Z' THEN '0001-01-02T00:00:00.000000Z'
    WHEN {table}.{name} >= '9999-12-31 00:00:00Z' THEN '9999-12-30T00:00:00.000000Z'
    ELSE to_char({table}.{name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END"""

Text = Annotated[str, Column(_TEXT)]
"""`""` where the row has NULL."""
OptionalMoment = Annotated[datetime | None, Column(is_optional=True)]
Stamp = Annotated[str | None, Column(_STAMP)]
"""A moment in wire format."""


@dataclass(frozen=True, slots=True)
class IdentityRecord:
    """An identity with its data as JSON text."""

    id: str
    provider_id: str
    data_json: Annotated[str, Column(_JSON, name="identity_data")]
    provider: str
    last_sign_in_at: Stamp
    created_at: Stamp
    updated_at: Stamp
    email: str | None


@dataclass(frozen=True, slots=True)
class FactorRecord:
    """A second factor without its secrets."""

    id: str
    friendly_name: str | None
    factor_type: str
    status: str
    phone: str | None
    created_at: Stamp
    updated_at: Stamp
    last_challenged_at: Stamp
    web_authn_aaguid: str | None


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user with identities and factors, as one statement reads them; fields are in the order of the response."""

    id: UUID
    aud: Text
    role: Text
    email: Text
    phone: Text
    password_hash: Annotated[str, Column(_TEXT, name="encrypted_password", member=None)] = field(repr=False)
    email_confirmed_at: OptionalMoment = None
    invited_at: OptionalMoment = None
    phone_confirmed_at: OptionalMoment = None
    confirmation_sent_at: OptionalMoment = None
    confirmed_at: OptionalMoment = None
    recovery_sent_at: OptionalMoment = None
    email_change_sent_at: OptionalMoment = None
    phone_change_sent_at: OptionalMoment = None
    reauthentication_sent_at: OptionalMoment = None
    last_sign_in_at: OptionalMoment = None
    banned_until: OptionalMoment = None
    deleted_at: OptionalMoment = None
    email_change: Annotated[str, Column(_TEXT, member="new_email", is_optional=True)] = ""
    phone_change: Annotated[str, Column(_TEXT, member="new_phone", is_optional=True)] = ""
    app_metadata_json: Annotated[str, Column(_JSON, "raw_app_meta_data", "app_metadata", is_json=True)] = "{}"
    user_metadata_json: Annotated[str, Column(_JSON, "raw_user_meta_data", "user_metadata", is_json=True)] = "{}"
    factors: Annotated[tuple[FactorRecord, ...], Column(is_optional=True)] = ()
    identities: tuple[IdentityRecord, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    is_anonymous: bool = False
    is_sso_user: Annotated[bool, Column(member=None)] = False

    @property
    def has_verified_factor(self) -> bool:
        return any(factor.status == "verified" for factor in self.factors)

    @property
    def has_pending_invitation(self) -> bool:
        """True if the account has an invitation that is not accepted.

        False if its phone was confirmed before: earlier versions invited the address into such an account of another
        person.
        """
        if self.invited_at is None or self.email_confirmed_at is not None:
            return False
        return self.phone_confirmed_at is None or self.phone_confirmed_at >= self.invited_at

    @property
    def full_name(self) -> object:
        """`user_metadata.full_name`, of any type; the metadata is parsed only when the key can be in it."""
        return self._user_metadata_value("full_name")

    @property
    def name(self) -> str:
        """`user_metadata.name` when that is a text."""
        name = self._user_metadata_value("name")
        return name if isinstance(name, str) else ""

    @property
    def user_metadata(self) -> Mapping[str, Any]:
        """The parsed user metadata; empty for a stored value that is no object or cannot be parsed."""
        metadata = parse_json(self.user_metadata_json)
        return metadata if isinstance(metadata, dict) else {}

    def _user_metadata_value(self, key: str) -> object:
        return self.user_metadata.get(key) if f'"{key}"' in self.user_metadata_json else None

    @property
    def providers(self) -> list[str]:
        """Distinct providers of the identities, oldest first."""
        return list(dict.fromkeys(identity.provider for identity in self.identities))

    @property
    def names_providers(self) -> bool:
        """True if `app_metadata` names the providers of the identities."""
        metadata, providers = parse_json(self.app_metadata_json), self.providers
        named = (metadata.get("provider"), metadata.get("providers")) if isinstance(metadata, dict) else ()
        return not providers or named == (providers[0], providers)

    @property
    def is_controlled(self) -> bool:
        """True if a person has confirmed an identifier of the account, or has signed in to it."""
        return self.confirmed_at is not None or self.last_sign_in_at is not None

    @property
    def verified_email(self) -> str:
        """The address if it is confirmed, else `""`."""
        return self.email if self.email_confirmed_at is not None else ""

    @property
    def audit_traits(self) -> dict[str, str]:
        """The user as the target of an audit entry, whose actor is an operator or administrator."""
        return {"user_id": str(self.id), "user_email": self.email, "user_phone": self.phone}

    def has_unproven_claim(self, column: Literal["email", "phone"]) -> bool:
        """True if a person controls the account without having confirmed its email or phone (`account_claiming`)."""
        if column == "phone":
            return bool(self.phone) and self.phone_confirmed_at is None and self.is_controlled
        is_unconfirmed = bool(self.email) and self.email_confirmed_at is None
        return is_unconfirmed and self.is_controlled and not self.has_pending_invitation

    def is_banned(self, at: datetime) -> bool:
        return self.banned_until is not None and at < self.banned_until


class Field(NamedTuple):
    """A field of a record, with its expression in the select list and its member in the JSON object."""

    name: str
    type: Any
    sql: str
    member: str
    """`""` for a field that no response contains."""
    is_optional: bool
    is_json: bool


def _fields(record: type, *, table: str) -> tuple[Field, ...]:
    hints, annotated = get_type_hints(record), get_type_hints(record, include_extras=True)
    described = []
    for name in hints:
        notes = getattr(annotated[name], "__metadata__", ())
        column = next((note for note in notes if isinstance(note, Column)), Column())
        described.append(
            Field(
                name=name,
                type=hints[name],
                sql=column.sql.format(table=table, name=column.name or name),
                member="" if column.member is None else column.member or name,
                is_optional=column.is_optional,
                is_json=column.is_json,
            )
        )
    return tuple(described)


USER_FIELDS = _fields(UserRecord, table="u")
USER_WIDTH = len(USER_FIELDS)
_NAMES = [field.name for field in USER_FIELDS]
_FACTORS, _IDENTITIES = _NAMES.index("factors"), _NAMES.index("identities")


@cache
def user_columns() -> str:
    """The select list of a user `u`, with factors and identities as JSON arrays of arrays (NULL for none)."""
    columns = [field.sql for field in USER_FIELDS]
    columns[_FACTORS] = factors_column()
    columns[_IDENTITIES] = _aggregate(IdentityRecord, table="i", source="identities", then="i.provider, ")
    return ", ".join(columns)


@cache
def factors_column() -> str:
    """The factors of a user `u` as a JSON array of arrays, NULL when there are none."""
    return _aggregate(FactorRecord, table="f", source="mfa_factors")


def _aggregate(record: type, *, table: str, source: str, then: str = "") -> str:
    """An array of the rows by age; `then` begins the order of rows of the same moment."""
    columns = ", ".join(field.sql for field in _fields(record, table=table))
    array = f"json_agg(json_build_array({columns}) ORDER BY {table}.created_at, {then}{table}.id)::text"
    return f"(SELECT {array} FROM {namespaced(source)} {table} WHERE {table}.user_id = u.id)"  # noqa: S608  (our names)


def read(row: Row) -> UserRecord:
    """The user from the first `USER_WIDTH` values of a row."""
    values = list(row[:USER_WIDTH])
    values[_FACTORS] = read_factors(values[_FACTORS])
    identities = values[_IDENTITIES]
    values[_IDENTITIES] = tuple([IdentityRecord(*row) for row in orjson.loads(identities)]) if identities else ()
    return UserRecord(*values)


def read_factors(array: str | None) -> tuple[FactorRecord, ...]:
    return tuple([FactorRecord(*row) for row in orjson.loads(array)]) if array else ()


def render_user(record: UserRecord) -> dict[str, Any]:
    """The User object: strings never null, empty optional members left out, metadata passed through as text."""
    members: dict[str, Any] = {}
    for (member, is_optional, write), value in zip(_MEMBERS, _values(record), strict=True):
        if value:
            members[member] = write(value) if write else value
        elif not is_optional:
            members[member] = value
    user_id = members["id"]
    members["identities"] = [render_identity(identity, user_id=user_id) for identity in record.identities]
    return members


def render_identity(record: IdentityRecord, *, user_id: str) -> dict[str, Any]:
    """The Identity object of the API, without members that have no value."""
    members: dict[str, Any] = {
        "identity_id": record.id,
        "id": record.provider_id,
        "user_id": user_id,
        "identity_data": orjson.Fragment(record.data_json),
        "provider": record.provider,
    }
    if record.last_sign_in_at:
        members["last_sign_in_at"] = record.last_sign_in_at
    members["created_at"] = record.created_at
    members["updated_at"] = record.updated_at
    if record.email:
        members["email"] = record.email
    return members


def render_factor(record: FactorRecord) -> dict[str, Any]:
    members: dict[str, Any] = {
        "id": record.id,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "status": record.status,
        "factor_type": record.factor_type,
        "phone": record.phone or "",
        "last_challenged_at": record.last_challenged_at,
    }
    if record.friendly_name:
        members["friendly_name"] = record.friendly_name
    if record.web_authn_aaguid:
        members["web_authn_aaguid"] = record.web_authn_aaguid
    return members


def render_factors(records: Iterable[FactorRecord]) -> list[dict[str, Any]]:
    return [render_factor(factor) for factor in records]


def _writer(field: Field) -> _Writer | None:
    if field.is_json:
        return orjson.Fragment
    if field.type == datetime | None:
        return rfc3339
    special: dict[str, _Writer] = {"id": str, "factors": render_factors}
    return special.get(field.name)


_MEMBERS = [(field.member, field.is_optional, _writer(field)) for field in USER_FIELDS if field.member]
_values = attrgetter(*(field.name for field in USER_FIELDS if field.member))

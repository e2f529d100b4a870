"""A user as one statement reads it, with identities and factors: what services decide on and payloads speak of."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from accounts.users import queries


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRecord:
    """An identity with its times in wire form and its data as JSON text."""

    id: str
    provider_id: str
    data_json: str
    provider: str
    last_sign_in_at: str | None
    created_at: str | None
    updated_at: str | None
    email: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorRecord:
    """A factor without its secrets, times in wire form."""

    id: str
    friendly_name: str | None
    factor_type: str
    status: str
    phone: str | None
    created_at: str
    updated_at: str
    last_challenged_at: str | None
    web_authn_aaguid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A user with identities and factors as one statement reads them; strings are `""` where the row has NULL."""

    id: UUID
    aud: str
    role: str
    email: str
    phone: str
    password_hash: str = dataclasses.field(repr=False)
    email_confirmed_at: datetime | None = None
    phone_confirmed_at: datetime | None = None
    confirmed_at: datetime | None = None
    invited_at: datetime | None = None
    confirmation_sent_at: datetime | None = None
    recovery_sent_at: datetime | None = None
    email_change: str = ""
    email_change_sent_at: datetime | None = None
    phone_change: str = ""
    phone_change_sent_at: datetime | None = None
    reauthentication_sent_at: datetime | None = None
    last_sign_in_at: datetime | None = None
    app_metadata_json: str = "{}"
    user_metadata_json: str = "{}"
    is_anonymous: bool = False
    is_sso_user: bool = False
    banned_until: datetime | None = None
    deleted_at: datetime | None = None
    created_at: datetime | None
    updated_at: datetime | None
    identities: tuple[IdentityRecord, ...] = ()
    factors: tuple[FactorRecord, ...] = ()

    @property
    def has_verified_factor(self) -> bool:
        return any(factor.status == "verified" for factor in self.factors)

    @property
    def full_name(self) -> object:
        """`user_metadata.full_name`; the metadata is parsed only when the key can be in it."""
        if '"full_name"' not in self.user_metadata_json:
            return None
        return orjson.loads(self.user_metadata_json).get("full_name")

    @property
    def name(self) -> str:
        """`user_metadata.name` when that is a text."""
        if '"name"' not in self.user_metadata_json:
            return ""
        name = orjson.loads(self.user_metadata_json).get("name")
        return name if isinstance(name, str) else ""

    @property
    def providers(self) -> list[str]:
        """Distinct providers of the identities, oldest first."""
        return list(dict.fromkeys(identity.provider for identity in self.identities))

    def is_banned(self, at: datetime) -> bool:
        return self.banned_until is not None and at < self.banned_until


def read(row: queries.Row) -> UserRecord:
    """A user from the first `queries.USER_WIDTH` values of a row."""
    (
        id_, aud, role, email, phone, password_hash, email_confirmed_at, phone_confirmed_at, confirmed_at, invited_at,
        confirmation_sent_at, recovery_sent_at, email_change, email_change_sent_at, phone_change, phone_change_sent_at,
        reauthentication_sent_at, last_sign_in_at, app_metadata, user_metadata, is_anonymous, is_sso_user, banned_until,
        deleted_at, created_at, updated_at, identities, factors,
    ) = row[: queries.USER_WIDTH]  # fmt: skip
    return UserRecord(
        id=id_,
        aud=aud or "",
        role=role or "",
        email=email or "",
        phone=phone or "",
        password_hash=password_hash or "",
        email_confirmed_at=email_confirmed_at,
        phone_confirmed_at=phone_confirmed_at,
        confirmed_at=confirmed_at,
        invited_at=invited_at,
        confirmation_sent_at=confirmation_sent_at,
        recovery_sent_at=recovery_sent_at,
        email_change=email_change or "",
        email_change_sent_at=email_change_sent_at,
        phone_change=phone_change or "",
        phone_change_sent_at=phone_change_sent_at,
        reauthentication_sent_at=reauthentication_sent_at,
        last_sign_in_at=last_sign_in_at,
        app_metadata_json=app_metadata or "{}",
        user_metadata_json=user_metadata or "{}",
        is_anonymous=is_anonymous,
        is_sso_user=is_sso_user,
        banned_until=banned_until,
        deleted_at=deleted_at,
        created_at=created_at,
        updated_at=updated_at,
        identities=tuple(_identity(values) for values in orjson.loads(identities)) if identities else (),
        factors=read_factors(factors),
    )


def read_factors(text: str | None) -> tuple[FactorRecord, ...]:
    """Factors from the last column of a user."""
    return tuple(_factor(values) for values in orjson.loads(text)) if text else ()


def _identity(values: list[Any]) -> IdentityRecord:
    id_, provider_id, data_json, provider, last_sign_in_at, created_at, updated_at, email = values
    return IdentityRecord(
        id=id_,
        provider_id=provider_id,
        data_json=data_json,
        provider=provider,
        last_sign_in_at=last_sign_in_at,
        created_at=created_at,
        updated_at=updated_at,
        email=email,
    )


def _factor(values: list[Any]) -> FactorRecord:
    id_, name, factor_type, status, phone, created_at, updated_at, last_challenged_at, aaguid = values
    return FactorRecord(
        id=id_,
        friendly_name=name,
        factor_type=factor_type,
        status=status,
        phone=phone,
        created_at=created_at,
        updated_at=updated_at,
        last_challenged_at=last_challenged_at,
        web_authn_aaguid=aaguid,
    )

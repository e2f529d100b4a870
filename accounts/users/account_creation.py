"""Creates accounts: users with their first identity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from accounts import errors
from accounts.models import Identity, User
from accounts.users import identifiers, metadata_limits, queries, user_events
from accounts.users.records import IdentityRecord, UserRecord
from authsvc import conf
from authsvc.api.renderers import rfc3339
from authsvc.events import EventType
from authsvc.security import encryption


def create_user(
    *,
    email: str = "",
    phone: str = "",
    password_hash: str,
    data: Mapping[str, Any],
    via: str,
    audience: str,
    confirmed: bool,
    at: datetime,
    id: UUID,
) -> UserRecord:
    """Insert a user with an email or phone and the identity of that kind. One statement.

    `via` is that of the lifecycle event: `signup` or `otp`. Must run inside a transaction. Raises IntegrityError when
    another user has the email or phone.
    """
    user, identity = _build(
        email=email,
        phone=phone,
        password_hash=password_hash,
        data=data,
        audience=audience,
        confirmed=confirmed,
        at=at,
        id=id,
    )
    with transaction.atomic(savepoint=False):
        queries.insert_user(
            id=user.id,
            aud=user.aud,
            role=user.role,
            email=user.email,
            phone=user.phone,
            password=user.password,
            email_confirmed_at=user.email_confirmed_at,
            phone_confirmed_at=user.phone_confirmed_at,
            confirmation_sent_at=user.confirmation_sent_at,
            app_metadata=json.dumps(user.raw_app_meta_data),
            user_metadata=json.dumps(user.raw_user_meta_data),
            identity_id=identity.id,
            identity_data=json.dumps(identity.identity_data),
            provider=identity.provider,
            at=at,
        )
        created = _record(user, identity)
        user_events.record_creation(created, provider=identity.provider, via=via, at=at)
    return created


def create_user_as_administrator(
    *,
    email: str = "",
    phone: str = "",
    password_hash: str,
    metadata: Mapping[str, Any],
    audience: str,
    at: datetime,
    id: UUID | None = None,
    via: str = "admin",
    **columns: Any,
) -> UserRecord:
    """Insert a user that an administrator defines, with an unverified identity for each of email and phone.

    Two statements; must run inside a transaction. `columns` are stored unchanged. Raises IntegrityError when another
    user has the id, the email or the phone.
    """
    user_id = id or uuid4()
    addresses = {"email": email, "phone": phone}
    providers = [name for name, value in addresses.items() if value]
    user = _user(
        id=user_id,
        audience=audience,
        at=at,
        **{
            "email": email or None,
            "phone": phone or None,
            "password": encryption.encrypt(password_hash, bound_to=user_id) if password_hash else "",
            "raw_app_meta_data": {"provider": providers[0], "providers": providers},
            "raw_user_meta_data": dict(metadata),
            **columns,
        },
    )
    unverified = {"sub": str(user_id), "email_verified": False, "phone_verified": False}
    identities = [
        _identity(user_id, provider=name, data={**unverified, name: addresses[name]}, at=at) for name in providers
    ]
    with transaction.atomic(savepoint=False):
        User.objects.bulk_create([user])
        Identity.objects.bulk_create(identities)
        created = _record(user, *identities)
        user_events.record_creation(created, provider=providers[0], via=via, at=at)
    return created


def create_user_from_provider(
    *,
    email: str,
    provider: str,
    subject: str,
    identity_data: Mapping[str, Any],
    audience: str,
    is_sso_user: bool,
    at: datetime,
    id: UUID,
    **columns: Any,
) -> UserRecord:
    """Insert a user who signs in at a provider, with that identity. Two statements; must run inside a transaction.

    `identity_data` also becomes the user's metadata; `columns` are stored unchanged. Raises IntegrityError when another
    user has the identity or the address.
    """
    confirmed = columns.get("email_confirmed_at") is not None
    user = _user(
        id=id,
        audience=audience,
        at=at,
        **{
            "email": email or None,
            "password": None,
            "is_sso_user": is_sso_user,
            "raw_app_meta_data": {"provider": provider, "providers": [provider]},
            "raw_user_meta_data": user_metadata(identity_data, email_verified=confirmed),
            **columns,
        },
    )
    with transaction.atomic(savepoint=False):
        User.objects.bulk_create([user])
        identity = _insert_identity(id, provider=provider, subject=subject, identity_data=identity_data, at=at)
        created = _record(user, identity)
        user_events.record_creation(created, provider=provider, via="external", at=at)
    return created


def add_identity(
    user_id: UUID, *, provider: str, subject: str, identity_data: Mapping[str, Any], at: datetime
) -> Identity:
    """Insert a further identity of a user. One statement; must run inside a transaction.

    Raises IntegrityError when an account has it already, and UserNotFound for a deleted user.
    """
    identity = _insert_identity(user_id, provider=provider, subject=subject, identity_data=identity_data, at=at)
    user_events.record_identity(EventType.IDENTITY_LINKED, user_id, identity, at=at)
    return identity


def _insert_identity(
    user_id: UUID, *, provider: str, subject: str, identity_data: Mapping[str, Any], at: datetime
) -> Identity:
    identity = _identity(user_id, provider=provider, data=identity_data, at=at, subject=subject)
    with transaction.atomic(savepoint=False):
        is_inserted = queries.insert_identity(
            id=identity.id,
            provider_id=identity.provider_id,
            user_id=user_id,
            identity_data=json.dumps(identity.identity_data),
            provider=provider,
            at=at,
        )
    if not is_inserted:
        raise errors.UserNotFound
    return identity


def fabricated_user(*, email: str, phone: str, data: Mapping[str, Any], audience: str, at: datetime) -> UserRecord:
    """The user that `create_user` would have returned for an unconfirmed user; nothing is stored."""
    rows = _build(email=email, phone=phone, password_hash="", data=data, audience=audience, confirmed=False, at=at)
    return _record(*rows)


def _build(
    *,
    email: str,
    phone: str,
    password_hash: str,
    data: Mapping[str, Any],
    audience: str,
    confirmed: bool,
    at: datetime,
    id: UUID | None = None,
) -> tuple[User, Identity]:
    """The rows of a new user and of the email or phone identity, which are not stored yet."""
    provider = "email" if email else "phone"
    user_id = id or uuid4()
    identity_data = own_identity_data(user_id=user_id, email=email, data=data)
    user = _user(
        id=user_id,
        audience=audience,
        at=at,
        email=email or None,
        phone=phone or None,
        password=encryption.encrypt(password_hash, bound_to=user_id) if password_hash else "",
        email_confirmed_at=at if email and confirmed else None,
        phone_confirmed_at=at if phone and confirmed else None,
        confirmation_sent_at=None if confirmed else at,
        raw_app_meta_data={"provider": provider, "providers": [provider]},
        raw_user_meta_data=user_metadata(identity_data, email_verified=bool(email and confirmed)),
    )
    return user, _identity(user_id, provider=provider, data=identity_data, at=at)


def _identity(
    user_id: UUID, *, provider: str, data: Mapping[str, Any], at: datetime, subject: str | None = None
) -> Identity:
    metadata_limits.check_user_metadata(data)
    return Identity(
        id=uuid4(),
        provider_id=str(user_id) if subject is None else subject,
        user_id=user_id,
        identity_data=dict(data),
        provider=provider,
        last_sign_in_at=at,
        created_at=at,
        updated_at=at,
    )


def create_anonymous_user(*, data: Mapping[str, Any], audience: str, at: datetime, id: UUID) -> UserRecord:
    """Insert a user without an identity. One statement; must run inside a transaction."""
    user = _user(
        id=id,
        audience=audience,
        at=at,
        is_anonymous=True,
        last_sign_in_at=at,
        raw_app_meta_data={},
        raw_user_meta_data=user_metadata(data),
    )
    with transaction.atomic(savepoint=False):
        User.objects.bulk_create([user])
        created = _record(user)
        user_events.record_creation(created, provider="anonymous", via="signup", at=at)
    return created


def _user(*, id: UUID, audience: str, at: datetime, **columns: Any) -> User:
    """A row with the default values of a new account, changed by `columns`. Raises MetadataTooLarge."""
    metadata_limits.check_user_metadata(columns["raw_user_meta_data"])
    metadata_limits.check_app_metadata(columns["raw_app_meta_data"])
    return User(
        **{
            "id": id,
            "aud": audience,
            "role": conf.current().jwt.default_group_name.strip(),
            "password": "",
            "email_change": "",
            "phone_change": "",
            "email_change_confirm_status": 0,
            "is_sso_user": False,
            "is_anonymous": False,
            "created_at": at,
            "updated_at": at,
            **columns,
        }
    )


def check_sign_up_data(data: Mapping[str, Any], *, email: str) -> None:
    """Raises MetadataTooLarge for data with which `create_user` cannot store an account. `email` is `""` for a phone.

    Call it before the look-up of the account, so that the refusal does not reveal whether the account exists.
    """
    address = email[: identifiers.MAX_EMAIL_LENGTH]  # a longer one is refused later
    metadata_limits.check_user_metadata(own_identity_data(user_id=UUID(int=0), email=address, data=data))


def own_identity_data(*, user_id: UUID, email: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an email or phone identity: the client's data, overridden by the values of the service."""
    members: dict[str, Any] = {"sub": str(user_id), "email_verified": False, "phone_verified": False}
    if email:
        members["email"] = email
    # An unverified address from the client must not be stored where verified ones are looked up.
    return {**{key: value for key, value in data.items() if key != "email"}, **members}


def user_metadata(identity_data: Mapping[str, Any], *, email_verified: bool = False) -> dict[str, Any]:
    """The user metadata for `identity_data`, without the keys whose value is null."""
    metadata = {key: value for key, value in identity_data.items() if value is not None}
    return metadata | {"email_verified": True} if email_verified else metadata


def _record(user: User, *identities: Identity) -> UserRecord:
    """The record of the inserted rows, without reading them back."""
    assert user.created_at is not None  # noqa: S101  (set by insert)
    moment = rfc3339(user.created_at)
    confirmed_at = user.email_confirmed_at or user.phone_confirmed_at
    return UserRecord(
        id=user.id,
        aud=user.aud or "",
        role=user.role or "",
        email=user.email or "",
        phone=user.phone or "",
        password_hash=user.password or "",
        email_confirmed_at=user.email_confirmed_at,
        phone_confirmed_at=user.phone_confirmed_at,
        confirmed_at=confirmed_at,
        invited_at=user.invited_at,
        confirmation_sent_at=user.confirmation_sent_at,
        app_metadata_json=json.dumps(user.raw_app_meta_data),
        user_metadata_json=json.dumps(user.raw_user_meta_data),
        created_at=user.created_at,
        updated_at=user.created_at,
        last_sign_in_at=user.last_sign_in_at,
        is_anonymous=user.is_anonymous,
        identities=tuple(_identity_record(identity, moment=moment) for identity in identities),
    )


def _identity_record(identity: Identity, *, moment: str) -> IdentityRecord:
    return IdentityRecord(
        id=str(identity.id),
        provider_id=identity.provider_id,
        data_json=json.dumps(identity.identity_data),
        provider=identity.provider,
        last_sign_in_at=moment,
        created_at=moment,
        updated_at=moment,
        email=identity.identity_data.get("email"),
    )

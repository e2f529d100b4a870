"""What administrators do to accounts: make them, change them, ban and confirm them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.administration import bans, errors
from accounts.models import Identity, User
from accounts.passwords import hashers, hashing, policy
from accounts.users import account_creation, identifiers, json_columns, pending_changes, queries
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.security import encryption
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle

_LONGEST_NAME = 255
_LONGEST_HASH = 1024
_KEPT_UNIQUE: dict[str, type[ApiError]] = {
    "users_pkey": errors.UserIdTaken,
    "users_email_partial_key": account_errors.EmailExists,
    "users_phone_key": errors.PhoneRegistered,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """An account as an administrator wants it; `ban_duration` as in `24h`, `id` a UUID as text."""

    id: str | None = None
    aud: str | None = None
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = field(default=None, repr=False)
    password_hash: str | None = field(default=None, repr=False)
    """In one of the forms that can be read, in place of a password."""
    email_confirm: bool | None = None
    phone_confirm: bool | None = None
    user_metadata: Mapping[str, Any] | None = None
    app_metadata: Mapping[str, Any] | None = None
    ban_duration: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an administrator changes; what is None or empty stays, but an empty password is one that is too short."""

    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = field(default=None, repr=False)
    email_confirm: bool | None = None
    phone_confirm: bool | None = None
    user_metadata: Mapping[str, Any] | None = None
    """Merged by top-level keys; None as a value deletes its key."""
    app_metadata: Mapping[str, Any] | None = None
    ban_duration: str | None = None


def create(wish: NewUser, *, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Make an account; nothing is sent and nobody is asked. Raises the errors of creation in their documented order."""
    if not wish.email and not wish.phone:
        raise errors.EmailOrPhoneRequired
    email = identifiers.email(wish.email) if wish.email else ""
    if email and queries.is_email_taken(email):
        raise account_errors.EmailExists
    phone = identifiers.phone(wish.phone) if wish.phone else ""
    if phone and User.objects.with_phone(phone).exists():
        raise errors.PhoneRegistered
    if wish.password is not None and wish.password_hash:
        raise errors.PasswordAndHash
    role, audience = _role(wish.role), wish.aud or caller.audience
    if len(audience) > _LONGEST_NAME:
        raise errors.AudienceTooLong
    password = _first_password(wish)
    user_id = _chosen_id(wish.id) if wish.id else uuid4()
    columns: dict[str, Any] = {"role": role} if role else {}
    if wish.password_hash:
        columns["password"] = wish.password_hash  # as it came, until the first sign-in replaces it
    columns |= _confirmed(wish, at=at)
    providers = [name for name, value in (("email", email), ("phone", phone)) if value]
    app_metadata = {"provider": providers[0], "providers": providers, **(wish.app_metadata or {})}
    columns["raw_app_meta_data"] = {name: value for name, value in app_metadata.items() if value is not None}
    if wish.ban_duration:
        columns["banned_until"] = bans.until(wish.ban_duration, at=at)
    verified = {"email_verified": True} if wish.email_confirm else {}
    try:
        with transaction.atomic(durable=True):
            made = account_creation.create_user_as_administrator(
                id=user_id,
                email=email,
                phone=phone,
                password_hash=password,
                metadata={**(wish.user_metadata or {}), **verified},
                audience=audience,
                at=at,
                **columns,
            )
            traits = {**_names(made), "provider": providers[0]}
            audit.record(audit.Action.SIGNED_UP, actor=actor, caller=caller, at=at, traits=traits)
            return _read(made.id)
    except IntegrityError as error:
        raise _taken(error) from None


def create_with_id(user_id: UUID, wish: NewUser, *, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """As `create`, for an id given beside the wish, which may repeat it."""
    if not user_id.int:
        raise errors.UserIdNil
    if wish.id and _uuid(wish.id) != user_id:
        raise errors.UserIdMismatch
    if User.objects.filter(id=user_id).exists():
        raise errors.UserIdTaken
    return create(dataclasses.replace(wish, id=str(user_id)), actor=actor, caller=caller, at=at)


def update(user_id: UUID, wish: Changes, *, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Change an account at once, without asking or telling its user; the user as it stands afterwards.

    A new password ends every sign-in and every outstanding secret. Raises UserNotFound and the errors of the update in
    their documented order.
    """
    user = _read(user_id)
    email = identifiers.email(wish.email) if wish.email else ""
    phone = identifiers.phone(wish.phone) if wish.phone else ""
    columns: dict[str, Any] = {"updated_at": at}
    if wish.ban_duration:
        columns["banned_until"] = bans.until(wish.ban_duration, at=at)
    if wish.password is not None:
        policy.validate_password(wish.password)
    if role := _role(wish.role):
        columns["role"] = role
    if email and not user.is_sso_user and queries.is_email_taken(email, except_user=user_id):
        raise account_errors.EmailExists
    if phone and phone != user.phone and User.objects.with_phone(phone).exists():
        raise errors.PhoneRegistered
    columns |= _confirmed(wish, at=at)
    if wish.password is not None:
        sealed = encryption.encrypt(hashing.hash_password(wish.password), bound_to=user_id)
        columns |= {"password": sealed, **pending_changes.cleared_columns()}
    if email:
        columns["email"] = email
    if phone:
        columns["phone"] = phone
    if user.is_anonymous and ((email and wish.email_confirm) or (phone and wish.phone_confirm)):
        columns["is_anonymous"] = False
    columns |= _metadata(wish)
    try:
        with transaction.atomic(durable=True):
            if not User.objects.filter(id=user_id).update(**columns):
                raise account_errors.UserNotFound
            _end_what_was_before(user, wish, email=email, phone=phone)
            if email and (email != user.email or wish.email_confirm):
                _say(user_id, "email", value=email, is_verified=bool(wish.email_confirm), at=at)
            if phone and (phone != user.phone or wish.phone_confirm):
                _say(user_id, "phone", value=phone, is_verified=bool(wish.phone_confirm), at=at)
            if wish.password is not None and not user.password_hash:
                _note_first_password(user_id, wish, at=at)
            changed = _read(user_id)
            audit.record(audit.Action.MODIFIED, actor=actor, caller=caller, at=at, traits=_names(changed))
            return changed
    except IntegrityError as error:
        raise _taken(error) from None


def set_ban(user_id: UUID, *, ban_duration: str, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Ban a user for a time such as `24h`, or with `none` no longer. Raises UserNotFound or BanDurationInvalid."""
    return update(user_id, Changes(ban_duration=ban_duration), actor=actor, caller=caller, at=at)


def confirm(
    user_id: UUID, *, email: bool = False, phone: bool = False, actor: Administrator, caller: Caller, at: datetime
) -> UserRecord:
    """Count a user's address or number as proved. Raises UserNotFound."""
    return update(user_id, Changes(email_confirm=email, phone_confirm=phone), actor=actor, caller=caller, at=at)


def _first_password(wish: NewUser) -> str:
    """The hash of the password of a new account, which nobody knows where none is given; empty for one given hashed."""
    if wish.password_hash:
        if len(wish.password_hash) > _LONGEST_HASH or not hashers.is_supported(wish.password_hash):
            raise errors.PasswordHashInvalid
        return ""
    return hashing.hash_password(wish.password) if wish.password else hashing.unusable_hash()


def _role(text: str | None) -> str:
    role = (text or "").strip()
    if len(role) > _LONGEST_NAME:
        raise errors.RoleTooLong
    return role


def _chosen_id(text: str) -> UUID:
    chosen = _uuid(text)
    if chosen is None:
        raise errors.UserIdMalformed
    if not chosen.int:
        raise errors.UserIdNil
    return chosen


def _uuid(text: str) -> UUID | None:
    return identifiers.uuid(text)


def _confirmed(wish: NewUser | Changes, *, at: datetime) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if wish.email_confirm:
        columns["email_confirmed_at"] = at
    if wish.phone_confirm:
        columns["phone_confirmed_at"] = at
    return columns


def _metadata(wish: Changes) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if wish.app_metadata:
        columns["raw_app_meta_data"] = json_columns.merged("raw_app_meta_data", wish.app_metadata)
    verified = {"email_verified": True} if wish.email_confirm else {}
    if user_metadata := {**verified, **(wish.user_metadata or {})}:
        columns["raw_user_meta_data"] = json_columns.merged("raw_user_meta_data", user_metadata)
    return columns


def _end_what_was_before(user: UserRecord, wish: Changes, *, email: str, phone: str) -> None:
    """What was sent to an address that is no longer the user's must not sign anybody in, nor what a password let in."""
    has_moved = (email or user.email) != user.email or (phone or user.phone) != user.phone
    if wish.password is not None or wish.email_confirm or wish.phone_confirm or has_moved:
        one_time_tokens.delete_all(user.id)
    if wish.password is not None or has_moved:
        flow_states.delete_user_flows(user.id)
    if wish.password is not None:
        lifecycle.revoke_all_sessions(user.id)


def _say(user_id: UUID, provider: str, *, value: str, is_verified: bool, at: datetime) -> None:
    """Let the user's own identity of this kind say this, or make it."""
    said = {provider: value, f"{provider}_verified": is_verified}
    existing = Identity.objects.filter(user_id=user_id, provider=provider, provider_id=str(user_id))
    if existing.update(identity_data=json_columns.merged("identity_data", said), updated_at=at):
        return
    data = {"sub": str(user_id), "email_verified": False, "phone_verified": False, **said}
    Identity.objects.bulk_create(
        [
            Identity(
                id=uuid4(),
                provider_id=str(user_id),
                user_id=user_id,
                identity_data=data,
                provider=provider,
                last_sign_in_at=at,
                created_at=at,
                updated_at=at,
            )
        ]
    )


def _note_first_password(user_id: UUID, wish: Changes, *, at: datetime) -> None:
    """Where the service is to do so, make the identity of somebody who until now came in through others only."""
    if not conf.current().experimental.email_identity_on_password_enabled:
        return
    user = _read(user_id)
    if user.is_sso_user or user.is_anonymous or user.email_confirmed_at is None or "email" in user.providers:
        return
    _say(user_id, "email", value=user.email, is_verified=True, at=at)
    providers = [*user.providers, "email"]
    named = {"provider": providers[0], "providers": providers, **(wish.app_metadata or {})}
    User.objects.filter(id=user_id).update(raw_app_meta_data=json_columns.merged("raw_app_meta_data", named))


def _names(user: UserRecord) -> dict[str, str]:
    return {"user_id": str(user.id), "user_email": user.email, "user_phone": user.phone}


def _read(user_id: UUID) -> UserRecord:
    return queries.require(user_id)


def _taken(error: IntegrityError) -> Exception:
    """What a unique index has refused, told as the check before would have told it."""
    said: Any = getattr(error.__cause__, "diag", None)
    name = (said and said.constraint_name) or ""
    return next((known() for ending, known in _KEPT_UNIQUE.items() if name.endswith(ending)), error)

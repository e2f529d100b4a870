"""Creating, changing, banning and confirming accounts on behalf of administrators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import orjson
from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.administration import bans, errors
from accounts.models import Identity, User
from accounts.passwords import hash_kinds, hashing, policy
from accounts.users import (
    account_creation,
    failed_attempts,
    identifiers,
    metadata_limits,
    queries,
    updates,
    user_events,
)
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.security import encryption
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.sessions import revocation

_MAX_NAME_LENGTH = 255
_MAX_HASH_LENGTH = 1024
_AUDITED_COLUMNS = (
    "aud", "role", "email", "phone", "email_confirmed_at", "phone_confirmed_at", "banned_until", "is_anonymous",
)  # fmt: skip
_ERROR_OF_CONSTRAINT: dict[str, type[ApiError]] = {
    "users_pkey": errors.UserIdTaken,
    "users_email_partial_key": account_errors.EmailExists,
    "users_phone_key": errors.PhoneRegistered,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """The account that an administrator requests; `ban_duration` as in `24h`, `id` a UUID as text."""

    id: str | None = None
    aud: str | None = None
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = field(default=None, repr=False)
    password_hash: str | None = field(default=None, repr=False)
    """A hash in a supported format, in place of a password."""
    email_confirm: bool | None = None
    phone_confirm: bool | None = None
    user_metadata: Mapping[str, Any] | None = None
    app_metadata: Mapping[str, Any] | None = None
    ban_duration: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChanges:
    """The requested changes; None and empty values change nothing, except that an empty password is too short."""

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


def create(request: NewUser, *, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Create an account without sending a message. Raises the errors of creation in their documented order."""
    create_user = _prepare_creation(request, audience=request.aud or caller.audience, at=at)
    try:
        with transaction.atomic(durable=True):
            user = create_user()
            if request.password_hash and (kind := hash_kinds.kind_of(request.password_hash)):
                hash_kinds.add(kind)
            created = queries.require(user.id)
            provider = "email" if user.email else "phone"
            traits = {**user.audit_traits, "provider": provider, "changes": _describe_changes(None, created)}
            audit.record(audit.Action.SIGNED_UP, actor=actor, caller=caller, at=at, traits=traits)
            return created
    except IntegrityError as error:
        raise _unique_violation(error) from None


def create_with_id(
    user_id: UUID, request: NewUser, *, actor: Administrator, caller: Caller, at: datetime
) -> UserRecord:
    """As `create`, with an id that the request may repeat."""
    if not user_id.int:
        raise errors.UserIdNil
    if request.id and identifiers.uuid(request.id) != user_id:
        raise errors.UserIdMismatch
    if User.objects.filter(id=user_id).exists():
        raise errors.UserIdTaken
    return create(dataclasses.replace(request, id=str(user_id)), actor=actor, caller=caller, at=at)


def update(user_id: UUID, request: UserChanges, *, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Change an account without a confirmation or message to its user; return the changed user.

    A new password revokes all sessions and outstanding secrets. Raises UserNotFound, for a soft-deleted user too, and
    the errors of the update in their documented order.
    """
    user = queries.require(user_id)
    if user.deleted_at is not None:
        raise account_errors.UserNotFound
    email = identifiers.email(request.email) if request.email else ""
    phone = identifiers.phone(request.phone) if request.phone else ""
    metadata_limits.check_assigned(user_metadata=request.user_metadata, app_metadata=request.app_metadata, before=user)
    columns = _changed_columns(user, request, email=email, phone=phone, at=at)
    try:
        with transaction.atomic(durable=True):
            if not User.objects.filter(id=user_id).update(**columns):
                raise account_errors.UserNotFound
            _revoke_outdated(user, request, email=email, phone=phone)
            _store_identities(user, request, email=email, phone=phone, at=at)
            changed = queries.require(user_id)
            metadata_limits.check_change(changed, before=user)
            traits = {**changed.audit_traits, "changes": _describe_changes(user, changed)}
            audit.record(audit.Action.MODIFIED, actor=actor, caller=caller, at=at, traits=traits)
            user_events.record_changes(user, changed, at=at)
            return changed
    except IntegrityError as error:
        raise _unique_violation(error) from None


def set_ban(user_id: UUID, *, ban_duration: str, actor: Administrator, caller: Caller, at: datetime) -> UserRecord:
    """Ban a user for a duration such as `24h`; `none` lifts the ban. Raises UserNotFound or BanDurationInvalid."""
    return update(user_id, UserChanges(ban_duration=ban_duration), actor=actor, caller=caller, at=at)


def reset_failed_attempts(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Forget the wrong passwords and codes of a user, so that every network may sign in again. Raises UserNotFound."""
    user = queries.require(user_id)
    with transaction.atomic(durable=True):
        failed_attempts.reset(user.id)
        audit.record(audit.Action.FAILED_ATTEMPTS_RESET, actor=actor, caller=caller, at=at, traits=user.audit_traits)


def confirm(
    user_id: UUID, *, email: bool = False, phone: bool = False, actor: Administrator, caller: Caller, at: datetime
) -> UserRecord:
    """Mark the email address or phone of a user as confirmed. Raises UserNotFound."""
    return update(user_id, UserChanges(email_confirm=email, phone_confirm=phone), actor=actor, caller=caller, at=at)


def _prepare_creation(request: NewUser, *, audience: str, at: datetime) -> Callable[[], UserRecord]:
    """Check the request, and return the function that inserts its account."""
    if not request.email and not request.phone:
        raise errors.EmailOrPhoneRequired
    email = identifiers.email(request.email) if request.email else ""
    if email and queries.is_email_taken(email):
        raise account_errors.EmailExists
    phone = identifiers.phone(request.phone) if request.phone else ""
    if phone and User.objects.with_phone(phone).exists():
        raise errors.PhoneRegistered
    if request.password is not None and request.password_hash:
        raise errors.PasswordAndHash
    role = _role(request.role)
    if len(audience) > _MAX_NAME_LENGTH:
        raise errors.AudienceTooLong
    password = _first_password(request)
    user_id = _parse_id(request.id) if request.id else uuid4()
    columns: dict[str, Any] = {"role": role} if role else {}
    if request.password_hash:
        columns["password"] = request.password_hash  # as it came, until the first sign-in replaces it
    columns |= _build_confirmation_columns(request, at=at)
    providers = [name for name, value in (("email", email), ("phone", phone)) if value]
    app_metadata = {"provider": providers[0], "providers": providers, **(request.app_metadata or {})}
    columns["raw_app_meta_data"] = {name: value for name, value in app_metadata.items() if value is not None}
    if request.ban_duration:
        columns["banned_until"] = bans.end_of_ban(request.ban_duration, at=at)
    verified = {"email_verified": True} if request.email_confirm else {}
    return partial(
        account_creation.create_user_as_administrator,
        id=user_id,
        email=email,
        phone=phone,
        password_hash=password,
        metadata={**(request.user_metadata or {}), **verified},
        audience=audience,
        at=at,
        **columns,
    )


def _changed_columns(user: UserRecord, request: UserChanges, *, email: str, phone: str, at: datetime) -> dict[str, Any]:
    """Check the changes, and return the columns to write."""
    columns: dict[str, Any] = {"updated_at": at}
    if request.ban_duration:
        columns["banned_until"] = bans.end_of_ban(request.ban_duration, at=at)
    if request.password is not None:
        policy.validate_password(request.password)
    if role := _role(request.role):
        columns["role"] = role
    if email and not user.is_sso_user and queries.is_email_taken(email, except_user=user.id):
        raise account_errors.EmailExists
    if phone and phone != user.phone and User.objects.with_phone(phone).exists():
        raise errors.PhoneRegistered
    columns |= _build_confirmation_columns(request, at=at)
    if request.password is not None:
        encrypted = encryption.encrypt(hashing.hash_password(request.password), bound_to=user.id)
        columns |= {"password": encrypted, **updates.cleared_pending_changes()}
    columns |= {name: value for name, value in (("email", email), ("phone", phone)) if value}
    if user.is_anonymous and ((email and request.email_confirm) or (phone and request.phone_confirm)):
        columns["is_anonymous"] = False
    return columns | _metadata(request)


def _first_password(request: NewUser) -> str:
    """The password hash of a new account: of an unknown password where none is given, `""` for a given hash."""
    if request.password_hash:
        if len(request.password_hash) > _MAX_HASH_LENGTH or not hashing.is_supported(request.password_hash):
            raise errors.PasswordHashInvalid
        return ""
    return hashing.hash_password(request.password) if request.password else hashing.unusable_hash()


def _role(text: str | None) -> str:
    role = (text or "").strip()
    if len(role) > _MAX_NAME_LENGTH:
        raise errors.RoleTooLong
    return role


def _parse_id(text: str) -> UUID:
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise errors.UserIdMalformed
    if not user_id.int:
        raise errors.UserIdNil
    return user_id


def _build_confirmation_columns(request: NewUser | UserChanges, *, at: datetime) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if request.email_confirm:
        columns["email_confirmed_at"] = at
    if request.phone_confirm:
        columns["phone_confirmed_at"] = at
    return columns


def _metadata(request: UserChanges) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if request.app_metadata:
        columns["raw_app_meta_data"] = updates.merged_json("raw_app_meta_data", request.app_metadata)
    verified = {"email_verified": True} if request.email_confirm else {}
    if user_metadata := {**verified, **(request.user_metadata or {})}:
        columns["raw_user_meta_data"] = updates.merged_json("raw_user_meta_data", user_metadata)
    return columns


def _revoke_outdated(user: UserRecord, request: UserChanges, *, email: str, phone: str) -> None:
    """Revoke secrets sent to a former address or phone, and sessions started with a former password."""
    has_moved = (email or user.email) != user.email or (phone or user.phone) != user.phone
    if request.password is not None or request.email_confirm or request.phone_confirm or has_moved:
        one_time_tokens.delete_all(user.id)
    if request.password is not None or has_moved:
        flow_states.delete_user_flows(user.id)
    if request.password is not None:
        revocation.revoke_all_sessions(user.id, reason="password_changed")


def _store_identities(user: UserRecord, request: UserChanges, *, email: str, phone: str, at: datetime) -> None:
    """Store the identities of a changed or confirmed email and phone, and that of a first password."""
    if email and (email != user.email or request.email_confirm):
        _store_identity(user.id, "email", value=email, is_verified=bool(request.email_confirm), at=at)
    if phone and (phone != user.phone or request.phone_confirm):
        _store_identity(user.id, "phone", value=phone, is_verified=bool(request.phone_confirm), at=at)
    if request.password is not None and not user.password_hash:
        _add_email_identity(user.id, request, at=at)


def _store_identity(user_id: UUID, provider: str, *, value: str, is_verified: bool, at: datetime) -> None:
    """Update the user's email or phone identity, or create it."""
    claims = {provider: value, f"{provider}_verified": is_verified}
    existing = Identity.objects.filter(user_id=user_id, provider=provider, provider_id=str(user_id))
    if existing.update(identity_data=updates.merged_json("identity_data", claims), updated_at=at):
        return
    data = {"sub": str(user_id), "email_verified": False, "phone_verified": False, **claims}
    account_creation.add_identity(user_id, provider=provider, subject=str(user_id), identity_data=data, at=at)


def _add_email_identity(user_id: UUID, request: UserChanges, *, at: datetime) -> None:
    """Create the email identity of a user who only had identities of providers, where the setting is on."""
    if not conf.current().experimental.email_identity_on_password_enabled:
        return
    user = queries.require(user_id)
    if user.is_sso_user or user.is_anonymous or user.email_confirmed_at is None or "email" in user.providers:
        return
    _store_identity(user_id, "email", value=user.email, is_verified=True, at=at)
    providers = [*user.providers, "email"]
    named = {"provider": providers[0], "providers": providers, **(request.app_metadata or {})}
    User.objects.filter(id=user_id).update(raw_app_meta_data=updates.merged_json("raw_app_meta_data", named))


def _describe_changes(before: UserRecord | None, after: UserRecord) -> dict[str, dict[str, Any]]:
    old = _audited_values(before) if before else {}
    return audit.describe_changes(old, _audited_values(after), secret=("password",))


def _audited_values(user: UserRecord) -> dict[str, Any]:
    """The values that administrators can change; metadata by top-level key."""
    values: dict[str, Any] = {name: getattr(user, name) for name in _AUDITED_COLUMNS}
    values["password"] = user.password_hash
    for name, text in (("user_metadata", user.user_metadata_json), ("app_metadata", user.app_metadata_json)):
        metadata = orjson.loads(text)
        if isinstance(metadata, dict):
            values |= {f"{name}.{key}": value for key, value in metadata.items()}
    return values


def _unique_violation(error: IntegrityError) -> Exception:
    """The error for a violated unique index, as the earlier check would have raised it."""
    diagnostics: Any = getattr(error.__cause__, "diag", None)
    name = (diagnostics and diagnostics.constraint_name) or ""
    return next((error_type() for ending, error_type in _ERROR_OF_CONSTRAINT.items() if name.endswith(ending)), error)

"""Changes that users make to their own account: email, phone, password and metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import transaction

from accounts import errors as account_errors
from accounts.messages import notification_emails, recipients, sms_codes
from accounts.models import User
from accounts.passwords import change_proofs, hashing, policy
from accounts.profile import errors, proofs
from accounts.users import identifiers, metadata_limits, queries, updates, user_events
from accounts.users.records import UserRecord
from accounts.verification import contact_changes
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, Sender, SmsType
from authsvc.security import encryption
from tokens.flows import flow_states, pkce
from tokens.flows.pkce import Challenge
from tokens.one_time import one_time_tokens
from tokens.sessions import aal, impersonation, locks, revocation
from tokens.sessions.users import SignedInUser


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUpdateRequest:
    """The requested changes; None leaves a value unchanged."""

    email: str | None = None
    phone: str | None = None
    password: str | None = field(default=None, repr=False)
    current_password: str | None = field(default=None, repr=False)
    nonce: str | None = field(default=None, repr=False)
    data: Mapping[str, Any] | None = None
    app_metadata: Mapping[str, Any] | None = None
    channel: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None
    needs_current_password: bool = False
    """A new password needs the current one regardless of the settings, unless the account has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A validated request: only the values that differ, normalised."""

    email: str = ""
    phone: str = ""
    channel: str = "sms"
    challenge: Challenge | None = None
    password: str | None = field(default=None, repr=False)
    data: Mapping[str, Any]
    app_metadata: Mapping[str, Any]
    owner: UserRecord | None = None
    """The owner of the address, when strict privacy forbids to reveal that it is taken."""
    phone_is_taken: bool = False
    """The phone belongs to another user, which strict privacy forbids to reveal."""

    @property
    def changes_credentials(self) -> bool:
        """True if the request changes a credential or an identifier of the account."""
        return bool(self.email or self.phone or self.password is not None)


def update_user(
    signed_in: SignedInUser,
    user: UserRecord,
    request: UserUpdateRequest,
    *,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> UserRecord:
    """Apply the changes, or start those that need confirmation, and return the updated user.

    Raises the errors of the user endpoint in their documented order. An error of a message undoes all changes.
    """
    if signed_in.is_impersonated and request != UserUpdateRequest(data=request.data):
        impersonation.refuse(signed_in, request="PUT user", caller=caller, at=at)
    change = _check_availability(user, _validate(signed_in, user, request))
    if change.changes_credentials:
        _check_proofs(signed_in, user, request, caller=caller, at=at)
    metadata_limits.check_assigned(user_metadata=change.data, app_metadata=change.app_metadata, before=user)
    password_hash = _new_hash(user, change.password)
    _reserve_messages(user, change, caller=caller, at=at)
    with (
        messaging.reserved("email" if _sends_email(user, change) else None),
        messaging.reserved("sms" if _sends_sms(change) else None),
        transaction.atomic(durable=True),
    ):
        locked = locks.lock_signed_in_user(signed_in)
        if change.changes_credentials:
            aal.check_aal(locked, error=errors.InsufficientAal)
        if password_hash is not None:
            own_session_id = signed_in.session.id if signed_in.session else None
            _set_password(user, password_hash, kept_session_id=own_session_id, caller=caller, at=at)
        _merge_metadata(user, change, at=at)
        # The identities of two completed changes are in the order email, phone. A phone that is completed at once
        # precedes the email that is sent.
        is_email_first = bool(change.email) and _is_email_autoconfirmed(user, change)
        if is_email_first:
            _change_email(queries.reread(user), change, redirect_to=redirect_to, caller=caller, at=at)
        if change.phone:
            _change_phone(queries.reread(user) if is_email_first else user, change, at=at)
        if change.email and not is_email_first:
            _change_email(queries.reread(user), change, redirect_to=redirect_to, caller=caller, at=at)
        audit.record(audit.Action.MODIFIED, actor=user, caller=caller, at=at)
        updated = queries.reread(user)
        metadata_limits.check_change(updated, before=user)
        user_events.record_changes(user, updated, at=at)
        return updated


def can_reset_password(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if a link or code of a message has started the session, not longer ago than such a code is valid.

    It replaces the nonce of a reauthentication, which comes by the same way. An older session needs the nonce.
    """
    oldest = at - conf.current().mailer.otp_exp
    return any(aal.is_recovery([entry.method]) and entry.at >= oldest for entry in signed_in.amr)


def reset_password(signed_in: SignedInUser, user: UserRecord, password: str, *, caller: Caller, at: datetime) -> None:
    """Set a new password in a session that a recovery link has just started, and end all sessions of the user.

    Raises NotRecovering, the errors of a new password, InsufficientAal, SamePassword and UserManagedBySso.
    """
    if not can_reset_password(signed_in, at=at):
        raise errors.NotRecovering
    if user.is_sso_user:
        raise errors.UserManagedBySso
    policy.validate_password(password)
    aal.check_aal(signed_in, error=errors.InsufficientAal)
    password_hash = _new_hash(user, password)
    assert password_hash is not None  # noqa: S101  (narrowing)
    with transaction.atomic(durable=True), user_events.changes_of(user, at=at):
        locks.lock_for_credential_change(signed_in, error=errors.InsufficientAal)
        _set_password(user, password_hash, kept_session_id=None, caller=caller, at=at)


def withdraw_change(
    signed_in: SignedInUser, user: UserRecord, kind: Literal["email", "phone"], *, caller: Caller, at: datetime
) -> None:
    """Withdraw the unconfirmed change of the email address or phone; its codes and links become invalid.

    Raises InsufficientAal. Does nothing without such a change.
    """
    with transaction.atomic(durable=True):
        locks.lock_for_credential_change(signed_in, error=errors.InsufficientAal)
        current = queries.reread(user)
        if not (current.email_change if kind == "email" else current.phone_change):
            return
        columns: dict[str, Any] = {f"{kind}_change": "", "updated_at": at}
        if kind == "email":
            columns["email_change_confirm_status"] = 0
        User.objects.filter(id=user.id).update(**columns)
        for token_type in one_time_tokens.EMAIL_CHANGE_TYPES if kind == "email" else one_time_tokens.PHONE_CHANGE_TYPES:
            one_time_tokens.delete(user_id=user.id, token_type=token_type)
        audit.record(audit.Action.MODIFIED, actor=user, caller=caller, at=at, traits={"withdrawn_change": kind})


def _validate(signed_in: SignedInUser, user: UserRecord, request: UserUpdateRequest) -> _Change:
    """The values that differ from those of the user. Raises the errors of values that are not permitted."""
    email = identifiers.email(request.email) if request.email else ""
    phone = identifiers.phone(request.phone) if request.phone else ""
    channel = identifiers.channel(request.channel or "") if phone else "sms"
    if request.password is not None:
        policy.validate_password(request.password)
    email = email if email != user.verified_email else ""
    phone = phone if phone != user.phone or user.phone_confirmed_at is None else ""
    challenge = (
        pkce.parse_challenge(challenge=request.code_challenge, method=request.code_challenge_method) if email else None
    )
    group = conf.current().jwt.admin_group_name
    if request.app_metadata is not None and not (group and user.aud == conf.current().jwt.aud and user.role == group):
        raise errors.AppMetadataNotAllowed
    changes_credentials = bool(email or phone or request.password is not None)
    if changes_credentials:
        aal.check_aal(signed_in, error=errors.InsufficientAal)
    if user.is_anonymous and request.password is not None and not email and not phone:
        raise errors.PasswordOfAnonymousUser
    if user.is_sso_user and (changes_credentials or request.nonce):
        raise errors.UserManagedBySso
    return _Change(
        email=email,
        phone=phone,
        channel=channel,
        challenge=challenge,
        password=request.password,
        data=request.data or {},
        app_metadata=request.app_metadata or {},
    )


def _check_availability(user: UserRecord, change: _Change) -> _Change:
    """Refuse an email or phone of another user; with strict privacy, record it in the result instead."""
    strict = conf.current().signup.strict_privacy_enabled
    owner = queries.find_by("email", change.email, aud=None) if change.email else None
    if owner is not None and owner.id == user.id:
        owner = None  # the unconfirmed address of the account itself
    if owner and not strict:
        raise account_errors.EmailExists
    phone_is_taken = bool(change.phone) and User.objects.with_phone(change.phone).exclude(id=user.id).exists()
    if phone_is_taken and not strict:
        raise account_errors.PhoneExists
    return dataclasses.replace(change, owner=owner, phone_is_taken=phone_is_taken)


def _check_proofs(
    signed_in: SignedInUser, user: UserRecord, request: UserUpdateRequest, *, caller: Caller, at: datetime
) -> None:
    """Check the nonce and the current password, as far as the change needs them."""
    proofs.check(
        signed_in,
        user,
        nonce=request.nonce,
        current_password=request.current_password,
        needs_nonce=change_proofs.needs_nonce(signed_in, is_contact=request.password is None, at=at),
        needs_current_password=change_proofs.needs_current_password(signed_in)
        or (request.needs_current_password and proofs.has_password(user)),
        caller=caller,
        at=at,
    )


def _new_hash(user: UserRecord, password: str | None) -> str | None:
    if password is None:
        return None
    stored = hashing.stored_hash(user)
    if stored and hashing.is_same_password(password, stored):
        raise errors.SamePassword
    return hashing.hash_password(password)


def _reserve_messages(user: UserRecord, change: _Change, *, caller: Caller, at: datetime) -> None:
    """Check interval, recipient and quota of the messages that the change will send. Call it before the transaction."""
    sender = Sender.of_request(caller, user_id=user.id)
    if _sends_email(user, change):
        messaging.check_user_interval(EmailType.EMAIL_CHANGE, user.email_change_sent_at, at=at)
        both = bool(user.verified_email) and conf.current().mailer.secure_email_change_enabled
        addresses = [change.email, user.email] if both else [change.email]
        recipients.reserve_email(*addresses, type=EmailType.EMAIL_CHANGE, sender=sender)
        messaging.enforce_user_interval(EmailType.EMAIL_CHANGE, user_id=user.id, recipients=addresses)
        messaging.start_change_interval(EmailType.EMAIL_CHANGE, address=user.email or change.email)
    if _sends_sms(change):
        messaging.check_user_interval(SmsType.PHONE_CHANGE, user.phone_change_sent_at, at=at)
        if not change.phone_is_taken:
            sms_codes.reserve_sms(change.phone, sender=sender, at=at)
        elif not conf.current().sms.autoconfirm:
            sms_codes.check_sms(change.phone, sender=sender, at=at)
        messaging.enforce_user_interval(SmsType.PHONE_CHANGE, user_id=user.id, recipients=(change.phone,))
        messaging.start_change_interval(SmsType.PHONE_CHANGE, address=user.phone or change.phone)


def _sends_email(user: UserRecord, change: _Change) -> bool:
    return bool(change.email) and not _is_email_autoconfirmed(user, change)


def _sends_sms(change: _Change) -> bool:
    return bool(change.phone) and not _is_phone_autoconfirmed(change)


def _is_email_autoconfirmed(user: UserRecord, change: _Change) -> bool:
    """Auto-confirm applies only to the first address of an anonymous user; other changes need a confirmation email."""
    return user.is_anonymous and conf.current().mailer.autoconfirm and change.owner is None


def _is_phone_autoconfirmed(change: _Change) -> bool:
    return conf.current().sms.autoconfirm and not change.phone_is_taken


def _set_password(
    user: UserRecord, password_hash: str, *, kept_session_id: UUID | None, caller: Caller, at: datetime
) -> None:
    """Store the new password, invalidate all secrets and PKCE codes, and end all sessions but the kept one."""
    encrypted = encryption.encrypt(password_hash, bound_to=user.id)
    User.objects.filter(id=user.id).update(password=encrypted, updated_at=at, **updates.cleared_pending_changes())
    one_time_tokens.delete_all(user.id)
    flow_states.delete_user_flows(user.id)
    revocation.revoke_all_sessions(user.id, except_session_id=kept_session_id, reason="password_changed")
    audit.record(audit.Action.UPDATED_PASSWORD, actor=user, caller=caller, at=at)
    if user.email:
        messaging.send(notification_emails.password_changed(user))


def _merge_metadata(user: UserRecord, change: _Change, *, at: datetime) -> None:
    columns: dict[str, Any] = {}
    if change.data:
        columns["raw_user_meta_data"] = updates.merged_json("raw_user_meta_data", change.data)
    if change.app_metadata:
        columns["raw_app_meta_data"] = updates.merged_json("raw_app_meta_data", change.app_metadata)
    User.objects.filter(id=user.id).update(**columns, updated_at=at)


def _change_phone(user: UserRecord, change: _Change, *, at: datetime) -> None:
    if _is_phone_autoconfirmed(change):
        contact_changes.complete_phone_change(user, phone=change.phone, at=at)
        one_time_tokens.delete_all(user.id, kept=one_time_tokens.EMAIL_CHANGE_TYPES)
        return
    contact_changes.start_phone_change(
        user, phone=change.phone, channel=change.channel, is_taken=change.phone_is_taken, at=at
    )


def _change_email(user: UserRecord, change: _Change, *, redirect_to: str, caller: Caller, at: datetime) -> None:
    if _is_email_autoconfirmed(user, change):
        contact_changes.complete_email_change(user, email=change.email, at=at)
        one_time_tokens.delete_all(user.id, kept=one_time_tokens.PHONE_CHANGE_TYPES)
        return
    contact_changes.start_email_change(
        user,
        email=change.email,
        owner=change.owner,
        challenge=change.challenge,
        redirect_to=redirect_to,
        caller=caller,
        at=at,
    )

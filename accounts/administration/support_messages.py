"""Messages that operators send to users who cannot sign in: recovery emails and repeated confirmations."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db import transaction

from accounts import errors as account_errors
from accounts.administration import errors
from accounts.messages import confirmation_emails, recipients, sms_codes
from accounts.models import User
from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import audit, languages, messaging
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.messaging import EmailType, SmsType
from tokens.models import TokenType
from tokens.one_time import one_time_tokens


def can_send_recovery(user: UserRecord) -> bool:
    """True if a recovery email reaches the user. A link to an address that the account only claims is refused."""
    is_managed = user.deleted_at is None and not user.is_sso_user
    return bool(user.email) and is_managed and not user.has_unproven_claim("email")


def confirmable_column(user: UserRecord) -> Literal["email", "phone"] | None:
    """The identifier whose confirmation can be sent again; None without one, and for one that the account claims."""
    if user.deleted_at is not None or user.is_sso_user:
        return None
    if user.email and user.email_confirmed_at is None and not user.has_unproven_claim("email"):
        return "email"
    if user.phone and user.phone_confirmed_at is None and not user.has_unproven_claim("phone"):
        return "phone"
    return None


def send_recovery(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool = False) -> str:
    """Send a user a recovery email, regardless of the interval since the last one; return its recipient.

    A bulk message is delivered after all others.
    Raises UserNotFound, NothingToSendTo and the errors of sending an email.
    """
    return _send_link(user_id, EmailType.RECOVERY, actor=actor, caller=caller, at=at, is_bulk=is_bulk)


def send_magic_link(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool = False) -> str:
    """Send a user a link that signs in, regardless of the interval since the last one; return its recipient.

    Raises as `send_recovery`.
    """
    return _send_link(user_id, EmailType.MAGIC_LINK, actor=actor, caller=caller, at=at, is_bulk=is_bulk)


def _send_link(
    user_id: UUID, type: EmailType, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool
) -> str:
    """Send an email with a link that signs the user in."""
    user = queries.require(user_id)
    if not can_send_recovery(user):
        raise errors.NothingToSendTo
    recipients.reserve_email(user.email, type=type, sender=messaging.OPERATORS)
    with messaging.reserved(None if is_bulk else "email"), transaction.atomic(durable=True):
        if not User.objects.filter(id=user.id, email=user.email).update(recovery_sent_at=at, updated_at=at):
            raise account_errors.UserNotFound
        audit.record(audit.Action.RECOVERY_REQUESTED, actor=actor, caller=caller, at=at, traits=user.audit_traits)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.RECOVERY, identifier=user.email, pkce=False, at=at
        )
        email = confirmation_emails.build(type, user, secret=secret, redirect_to="", caller=caller, at=at)
        messaging.send(replace(email, is_bulk=is_bulk, language=email.language or languages.default()))
    return user.email


def resend_confirmation(
    user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool = False
) -> str:
    """Repeat the confirmation of a sign-up, by email or else by SMS; return its recipient.

    A bulk message is delivered after all others.
    Raises UserNotFound, NothingToConfirm and the errors of sending a message.
    """
    user = queries.require(user_id)
    match confirmable_column(user):
        case "email":
            return _send_confirmation_email(user, actor=actor, caller=caller, at=at, is_bulk=is_bulk)
        case "phone":
            return _send_confirmation_sms(user, actor=actor, caller=caller, at=at, is_bulk=is_bulk)
    raise errors.NothingToConfirm


def _send_confirmation_email(
    user: UserRecord, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool
) -> str:
    recipients.reserve_email(user.email, type=EmailType.CONFIRMATION, sender=messaging.OPERATORS)
    with messaging.reserved(None if is_bulk else "email"), transaction.atomic(durable=True):
        waiting = User.objects.filter(id=user.id, email=user.email, email_confirmed_at=None)
        if not waiting.update(confirmation_sent_at=at, updated_at=at):
            raise errors.NothingToConfirm
        audit.record(audit.Action.CONFIRMATION_REQUESTED, actor=actor, caller=caller, at=at, traits=user.audit_traits)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=user.email, pkce=False, at=at
        )
        email = confirmation_emails.build(
            EmailType.CONFIRMATION, user, secret=secret, redirect_to="", caller=caller, at=at
        )
        messaging.send(replace(email, is_bulk=is_bulk, language=email.language or languages.default()))
    return user.email


def _send_confirmation_sms(
    user: UserRecord, *, actor: Administrator, caller: Caller, at: datetime, is_bulk: bool
) -> str:
    sms_codes.reserve_sms(user.phone, sender=messaging.OPERATORS, at=at)
    with messaging.reserved(None if is_bulk else "sms"), transaction.atomic(durable=True):
        waiting = User.objects.filter(id=user.id, phone=user.phone, phone_confirmed_at=None)
        if not waiting.update(confirmation_sent_at=at, updated_at=at):
            raise errors.NothingToConfirm
        audit.record(audit.Action.CONFIRMATION_REQUESTED, actor=actor, caller=caller, at=at, traits=user.audit_traits)
        sms_codes.send_code(
            user_id=user.id,
            phone=user.phone,
            type=SmsType.CONFIRMATION,
            token_type=TokenType.CONFIRMATION,
            channel="sms",
            language=languages.of_user(user.user_metadata) or languages.default(),
            at=at,
            is_bulk=is_bulk,
        )
    return f"+{user.phone}"

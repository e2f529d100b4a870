"""Sending once more what was sent before: the confirmation of a sign-up or of a change."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from django.conf import settings
from django.db import transaction

from accounts import errors, identifiers, notices, queries, recipients, records
from accounts.models import User
from accounts.records import UserRecord
from accounts.services import changes, texts
from authsvc.core import audit, messaging
from authsvc.core.caller import Caller
from authsvc.core.messaging import EmailKind, Group, SmsKind
from tokens import pkce
from tokens.models import TokenType
from tokens.pkce import Challenge
from tokens.services import flows, one_time_tokens


def resend(
    *,
    type: str,
    email: str,
    phone: str,
    code_challenge: str | None,
    code_challenge_method: str | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> str:
    """Send again and return the message's id. Raises the errors of the resend endpoint.

    `email` or `phone` names the account. Where nothing is outstanding, nothing is sent and the id is of no message:
    nobody is told.
    """
    if type not in ("signup", "email_change", "sms", "phone_change"):
        raise errors.ResendTypeMissing
    mails = type in ("signup", "email_change")
    challenge = pkce.parse(challenge=code_challenge, method=code_challenge_method) if mails else None
    if type == "signup" and not email:
        raise errors.ResendNeedsEmail
    if type == "sms" and not phone:
        raise errors.ResendNeedsPhone
    if email and phone:
        raise errors.OnlyOneIdentifierOnResend
    if not email and not phone:
        raise errors.IdentifierMissingOnResend
    if email and not settings.AUTH.signup.email_enabled:
        raise errors.MailRequestsDisabled
    if phone and not settings.AUTH.signup.phone_enabled:
        raise errors.PhoneRequestsDisabled
    address = identifiers.email(email) if email else identifiers.phone(phone)
    group = Group.CONFIRMATION if type in ("signup", "sms") else Group.CHANGE
    (messaging.space_out if mails else messaging.space_out_sms)(group, address=address)
    row = queries.by_email(address, aud=caller.audience) if email else queries.by_phone(address, aud=caller.audience)
    user = records.read(row) if row else None
    to = _outstanding(user, type)
    kind = EmailKind.CONFIRMATION if type == "signup" else EmailKind.EMAIL_CHANGE
    if user is None or not to:
        if mails:
            recipients.feign(*([address] if email else []), kind=kind)
        else:
            texts.feign(address, at=at)
        messaging.post_decoy()
        return str(uuid4())
    if mails:
        both = type == "email_change" and user.email and settings.AUTH.mailer.secure_email_change_enabled
        recipients.admit(*([to, user.email] if both else [to]), kind=kind)
    else:
        texts.admit(to, at=at)
    taken = queries.by_email(to, aud=None) if type == "email_change" else None
    with transaction.atomic(durable=True):
        match type:
            case "signup":
                return _confirm_again(user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at)
            case "email_change":
                message_id = changes.announce_email(
                    user,
                    email=to,
                    owner=records.read(taken) if taken else None,
                    challenge=challenge,
                    redirect_to=redirect_to,
                    caller=caller,
                    at=at,
                )
                return str(message_id)
            case "phone_change":
                return changes.announce_phone(user, phone=to, channel="sms", at=at)
            case _:
                return _text_again(user, caller=caller, at=at)


def _outstanding(user: UserRecord | None, type: str) -> str:
    """The address or number that is still to be confirmed, `""` when there is none."""
    if user is None:
        return ""
    match type:
        case "signup":
            return "" if user.email_confirmed_at else user.email
        case "sms":
            return "" if user.phone_confirmed_at else user.phone
        case "email_change":
            return user.email_change
        case _:
            return user.phone_change


def _confirm_again(
    user: UserRecord, *, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime
) -> str:
    audit.record(audit.Action.CONFIRMATION_REQUESTED, actor=user, caller=caller, at=at)
    User.objects.filter(id=user.id).update(confirmation_sent_at=at, updated_at=at)
    if challenge is not None:
        flows.begin(challenge=challenge, provider_type="email/signup", method="email/signup", user_id=user.id, at=at)
    secret = one_time_tokens.issue(
        user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=user.email, pkce=challenge is not None, at=at
    )
    message = notices.confirmation(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
    messaging.post(message)
    return str(message.id)


def _text_again(user: UserRecord, *, caller: Caller, at: datetime) -> str:
    audit.record(audit.Action.RECOVERY_REQUESTED, actor=user, caller=caller, at=at)
    User.objects.filter(id=user.id).update(confirmation_sent_at=at, updated_at=at)
    return texts.send_code(
        user_id=user.id,
        phone=user.phone,
        kind=SmsKind.CONFIRMATION,
        token_type=TokenType.CONFIRMATION,
        channel="sms",
        at=at,
    )

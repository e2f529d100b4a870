"""Resends the confirmation of a sign-up or of an email or phone change (`POST /resend`)."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from django.db import transaction

from accounts import errors as account_errors
from accounts.messages import confirmation_emails, recipients, sms_codes
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from accounts.verification import contact_changes, errors
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, IntervalGroup, Sender, SmsType
from tokens.flows import pkce
from tokens.flows.pkce import Challenge


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
    """Send the message again and return its id. Raises the errors of the resend endpoint.

    `email` or `phone` identifies the account. When nothing is to be confirmed, nothing is sent and the id belongs to no
    message, so that the response does not reveal it.
    """
    if type not in ("signup", "email_change", "sms", "phone_change"):
        raise errors.ResendTypeMissing
    is_email = type in ("signup", "email_change")
    challenge = pkce.parse_challenge(challenge=code_challenge, method=code_challenge_method) if is_email else None
    if type == "signup" and not email:
        raise errors.ResendNeedsEmail
    if type == "sms" and not phone:
        raise errors.ResendNeedsPhone
    if email and phone:
        raise errors.OnlyOneIdentifierOnResend
    if not email and not phone:
        raise errors.IdentifierMissingOnResend
    if email and not conf.current().signup.email_enabled:
        raise account_errors.MailRequestsDisabled
    if phone and not conf.current().signup.phone_enabled:
        raise errors.PhoneRequestsDisabled
    address = identifiers.email(email) if email else identifiers.phone(phone)
    is_change = type in ("email_change", "phone_change")
    group = IntervalGroup.CHANGE if is_change else IntervalGroup.CONFIRMATION
    with (messaging.email_interval if is_email else messaging.sms_interval)(group, address=address):
        # A change is confirmed by its new identifier. The other messages prove the identifier that names the account.
        find = queries.find_by if is_change else queries.find_claimant
        user = find("email" if email else "phone", address, aud=caller.audience)
        sent_to = _recipients(user, type)
        # The interval of `address` has started above. An error for another recipient would reveal a pending change.
        others = [recipient for recipient in sent_to if recipient != address]
        is_due = messaging.start_recipient_intervals(_message_type(type), *others)
        sender = Sender.of_request(caller)
        if user is None or not sent_to or not is_due:
            return _simulate(type, address, by_email=bool(email), sender=sender, at=at)
        return _send(
            user, type, sent_to, sender=sender, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at
        )


def _simulate(type: str, address: str, *, by_email: bool, sender: Sender, at: datetime) -> str:
    """Take the steps of `_send` without sending a message; returns an id of no message."""
    message_type = _message_type(type)
    if isinstance(message_type, EmailType):
        recipients.check_email(*([address] if by_email else []), type=message_type, sender=sender)
        confirmation_emails.simulate_send(confirmation_emails.CONFIRMATION, address=address, at=at)
        return str(uuid4())
    sms_codes.check_sms(address, sender=sender, at=at)
    return sms_codes.simulate_send(address, at=at)


def _send(
    user: UserRecord,
    type: str,
    sent_to: list[str],
    *,
    sender: Sender,
    challenge: Challenge | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> str:
    """Send the message and return its id. The first recipient is the contact that is to be confirmed."""
    message_type, to = _message_type(type), sent_to[0]
    owner = _other_owner(to, type, user=user)
    if isinstance(message_type, EmailType):
        recipients.reserve_email(*sent_to, type=message_type, sender=sender)
    else:
        (sms_codes.check_sms if owner else sms_codes.reserve_sms)(to, sender=sender, at=at)
    with (
        messaging.reserved("email" if isinstance(message_type, EmailType) else "sms"),
        transaction.atomic(durable=True),
    ):
        match type:
            case "signup":
                return confirmation_emails.send(
                    confirmation_emails.CONFIRMATION,
                    user,
                    challenge=challenge,
                    redirect_to=redirect_to,
                    caller=caller,
                    at=at,
                )
            case "email_change":
                message_id = contact_changes.start_email_change(
                    user,
                    email=to,
                    owner=owner,
                    challenge=challenge,
                    redirect_to=redirect_to,
                    caller=caller,
                    at=at,
                )
                return str(message_id)
            case "phone_change":
                return contact_changes.start_phone_change(
                    user, phone=to, channel="sms", is_taken=owner is not None, at=at
                )
            case _:
                return sms_codes.send_sign_in_code(user, channel="sms", caller=caller, at=at)


def _message_type(type: str) -> EmailType | SmsType:
    match type:
        case "signup":
            return EmailType.CONFIRMATION
        case "email_change":
            return EmailType.EMAIL_CHANGE
        case _:
            return SmsType.PHONE_CHANGE


def _recipients(user: UserRecord | None, type: str) -> list[str]:
    """The contact that is to be confirmed, and the present email address if it must confirm a change too."""
    to = _unconfirmed_contact(user, type)
    if user is None or not to:
        return []
    is_secure_change = type == "email_change" and conf.current().mailer.secure_email_change_enabled
    return [to, user.email] if is_secure_change and user.verified_email else [to]


def _unconfirmed_contact(user: UserRecord | None, type: str) -> str:
    """The email address or phone that is to be confirmed, `""` for none."""
    if user is None:
        return ""
    match type:
        case "signup":
            # Another link would replace that of the invitation.
            return "" if user.email_confirmed_at or user.has_pending_invitation else user.email
        case "sms":
            return "" if user.phone_confirmed_at else user.phone
        case "email_change":
            return user.email_change
        case _:
            return user.phone_change


def _other_owner(to: str, type: str, *, user: UserRecord) -> UserRecord | None:
    """Another user who already has the email or phone that a change requests."""
    match type:
        case "email_change":
            owner = queries.find_by("email", to, aud=None)
        case "phone_change":
            owner = queries.find_by("phone", to, aud=None)
        case _:
            return None
    return owner if owner and owner.id != user.id else None

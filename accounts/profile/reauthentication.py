"""Reauthentication before a change of password, email or phone: a code sent to the user's own email or phone."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts import errors as account_errors
from accounts.messages import notification_emails, recipients, sms_codes
from accounts.models import User
from accounts.profile import errors
from accounts.users.records import UserRecord
from authsvc import audit, conf, languages, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, Sender, SmsType, contract
from authsvc.security import crypto
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.sessions.errors import UserNotFoundForToken


def send_code(user: UserRecord, *, caller: Caller, at: datetime) -> str | None:
    """Send a code to the user's email, or without one to the phone; returns the id of an SMS, None for an email.

    Raises NoContact, EmailNotVerified, PhoneNotVerified, UserNotFoundForToken, and the errors of sending.
    """
    if not user.email and not user.phone:
        raise errors.NoContact
    if user.email and user.email_confirmed_at is None:
        raise errors.EmailNotVerified
    if not user.email and user.phone_confirmed_at is None:
        raise errors.PhoneNotVerified
    sender = Sender.of_request(caller, user_id=user.id)
    if user.email:
        messaging.check_user_interval(EmailType.REAUTHENTICATION, user.reauthentication_sent_at, at=at)
        recipients.reserve_email(user.email, type=EmailType.REAUTHENTICATION, sender=sender)
        messaging.enforce_user_interval(EmailType.REAUTHENTICATION, user_id=user.id, recipients=(user.email,))
    else:
        messaging.check_user_interval(SmsType.REAUTHENTICATION, user.reauthentication_sent_at, at=at)
        sms_codes.reserve_sms(user.phone, sender=sender, at=at)
        messaging.enforce_user_interval(SmsType.REAUTHENTICATION, user_id=user.id, recipients=(user.phone,))
    with messaging.reserved("email" if user.email else "sms"), transaction.atomic(durable=True):
        audit.record(audit.Action.REAUTHENTICATION_REQUESTED, actor=user, caller=caller, at=at)
        if not User.objects.filter(id=user.id).update(reauthentication_sent_at=at, updated_at=at):
            raise UserNotFoundForToken  # deleted meanwhile
        if user.email:
            code = crypto.generate_code(digits=conf.current().mailer.otp_length)
            one_time_tokens.store_code(
                user_id=user.id, token_type=TokenType.REAUTHENTICATION, identifier=user.email, code=code, at=at
            )
            messaging.send(notification_emails.reauthentication(user, code=code, at=at))
            return None
        return sms_codes.send_code(
            user_id=user.id,
            phone=user.phone,
            type=SmsType.REAUTHENTICATION,
            token_type=TokenType.REAUTHENTICATION,
            channel="sms",
            language=languages.of_user(user.user_metadata),
            at=at,
        )


def redeem_code(user: UserRecord, *, nonce: str, refused: bool, at: datetime) -> None:
    """Spend the code, and all other secrets of the user, even if the rest of the request fails.

    With `refused` every code is wrong. Raises NonceInvalid, NonceWithoutAddress, and CodeExpired when Twilio Verify
    refuses the code.
    """
    if not user.email and not user.phone:
        raise errors.NonceWithoutAddress
    token = one_time_tokens.find(user_id=user.id, token_type=TokenType.REAUTHENTICATION)
    if token is None or token.relates_to != (user.email or user.phone):
        raise errors.NonceInvalid
    sms = conf.current().sms
    if not user.email and contract.has_verifying_gateway() and sms.test_code(user.phone, at=at) is None:
        verifier = contract.phone_verifier
        if not verifier.is_approved(phone=user.phone, code=nonce) or refused:
            raise account_errors.CodeExpired
    elif not token.matches(nonce) or refused:
        one_time_tokens.record_wrong_code([token.id])
        raise errors.NonceInvalid
    elif not token.is_fresh(at):
        raise errors.NonceInvalid
    with transaction.atomic(durable=True):
        User.objects.filter(id=user.id).update(reauthentication_sent_at=None, updated_at=at)
        if not one_time_tokens.consume_all(token, user_id=user.id, by_code=True):
            raise errors.NonceInvalid

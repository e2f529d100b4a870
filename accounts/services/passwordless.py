"""Magic links and one-time codes by mail, and sending a confirmation once more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction

from accounts import errors, identifiers, notices, queries, records
from accounts.models import User
from accounts.records import UserRecord
from accounts.services import sign_up
from accounts.services.sign_up import SignUp
from authsvc.core import audit, messaging
from authsvc.core.caller import Caller
from authsvc.core.messaging import Group
from tokens import pkce
from tokens.models import TokenType
from tokens.pkce import Challenge
from tokens.services import flows, one_time_tokens


def send_magic_link(
    *,
    email: str,
    data: Mapping[str, Any],
    create_user: bool,
    challenge: Challenge | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> None:
    """Mail a link and a code that sign in; an address that nobody has confirmed is signed up on the way.

    Raises the errors of the magic-link and sign-up endpoints, OtpDisabled where an account would have to be created
    and must not be.
    """
    config = settings.AUTH
    row = queries.by_email(identifiers.lower_email(email), aud=caller.audience) if email else None
    if row is None and not create_user:
        raise errors.OtpDisabled  # also for what is no address at all
    if not config.signup.email_enabled:
        raise errors.EmailLoginsDisabled
    if not email:
        raise errors.MagicLinkAddressMissing
    address = identifiers.email(email)
    user = records.read(row) if row else None
    if user is None or user.email_confirmed_at is None:
        if config.signup.disabled:
            raise errors.SignupDisabled
        wanted = SignUp(email=address, password=None, data=data, challenge=challenge, redirect_to=redirect_to)
        user = sign_up.admit(wanted, group=Group.PASSWORDLESS, caller=caller, at=at).user
        if user.email_confirmed_at is None:
            return  # the confirmation mail doubles as the magic link
    messaging.space_out(Group.PASSWORDLESS, address=address)
    messaging.take_email_quota()
    with transaction.atomic(durable=True):
        audit.record(audit.Action.RECOVERY_REQUESTED, actor=user, caller=caller, at=at)
        User.objects.filter(id=user.id).update(recovery_sent_at=at, updated_at=at)
        if challenge is not None:
            flows.begin(challenge=challenge, provider_type="magiclink", method="magiclink", user_id=user.id, at=at)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.RECOVERY, identifier=address, pkce=challenge is not None, at=at
        )
        messaging.post(notices.magic_link(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at))


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
) -> UUID:
    """Send what was sent before once more and return the message's id. Raises the errors of the resend endpoint.

    Where nothing is outstanding, nothing is sent and the id is of no message: nobody is told.
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
    messaging.space_out(Group.CONFIRMATION if type in ("signup", "sms") else Group.CHANGE, address=address)
    row = queries.by_email(address, aud=caller.audience) if type == "signup" else None
    user = records.read(row) if row else None
    if user is None or user.email_confirmed_at is not None:
        return uuid4()
    messaging.take_email_quota()
    with transaction.atomic(durable=True):
        return _confirm_again(user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at)


def _confirm_again(
    user: UserRecord, *, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime
) -> UUID:
    audit.record(audit.Action.CONFIRMATION_REQUESTED, actor=user, caller=caller, at=at)
    User.objects.filter(id=user.id).update(confirmation_sent_at=at, updated_at=at)
    if challenge is not None:
        flows.begin(challenge=challenge, provider_type="email/signup", method="email/signup", user_id=user.id, at=at)
    secret = one_time_tokens.issue(
        user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=user.email, pkce=challenge is not None, at=at
    )
    message = notices.confirmation(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
    messaging.post(message)
    return message.id

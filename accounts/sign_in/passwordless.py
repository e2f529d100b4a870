"""Passwordless sign-in: magic links and codes by email, codes by SMS."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction

from accounts import errors as account_errors
from accounts.messages import confirmation_emails, recipients, sms_codes
from accounts.sign_in import errors
from accounts.sign_up import sign_up
from accounts.sign_up.sign_up import SignUpRequest
from accounts.users import account_creation, identifiers, queries
from accounts.users.records import UserRecord
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, IntervalGroup, Sender
from tokens.flows.pkce import Challenge


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
    """Send a link and a code that sign in. An unconfirmed or new address is signed up.

    Raises the errors of the magic-link and sign-up endpoints, and OtpDisabled when `create_user` forbids a new account.
    """
    config = conf.current()
    account_creation.check_sign_up_data(data, email=email)
    user = queries.find_claimant("email", identifiers.lower_email(email), aud=caller.audience) if email else None
    if user is None and not create_user and not config.signup.strict_privacy_enabled:
        raise errors.OtpDisabled  # also for an invalid address
    if not config.signup.email_enabled:
        raise errors.EmailLoginsDisabled
    if not config.signup.magic_link_enabled:
        raise errors.MagicLinkDisabled
    if not email:
        raise errors.MagicLinkAddressMissing
    address = identifiers.email(email)
    is_closed = config.signup.disabled and (user is None or user.email_confirmed_at is None)
    if is_closed and not config.signup.strict_privacy_enabled:
        raise account_errors.SignupDisabled
    if is_closed or (user is None and not create_user):
        with messaging.email_interval(IntervalGroup.PASSWORDLESS, address=address):
            recipients.check_email(address, type=EmailType.MAGIC_LINK, sender=Sender.of_request(caller))
        confirmation_emails.simulate_send(confirmation_emails.MAGIC_LINK, address=address, at=at)
        return
    auto_confirms = config.mailer.autoconfirm
    signs_up = user is None or (user.email_confirmed_at is None and _is_repeated(user, auto_confirms=auto_confirms))
    if not signs_up or auto_confirms:
        # Before the sign-up, so that a refused email leaves no account behind.
        with messaging.email_interval(IntervalGroup.PASSWORDLESS, address=address):
            recipients.reserve_email(address, type=EmailType.MAGIC_LINK, sender=Sender.of_request(caller))
    if user is None or signs_up:
        request = SignUpRequest(email=address, password=None, data=data, challenge=challenge, redirect_to=redirect_to)
        user = sign_up.process_request(request, group=IntervalGroup.PASSWORDLESS, caller=caller, at=at).user
        if user.email_confirmed_at is None:
            return  # the confirmation email also signs in
    with messaging.reserved("email"), transaction.atomic(durable=True):
        confirmation_emails.send(
            confirmation_emails.MAGIC_LINK, user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at
        )


def send_sms_code(
    *, phone: str, data: Mapping[str, Any], channel: str, create_user: bool, caller: Caller, at: datetime
) -> str:
    """Send a code that signs in and return its message id. An unconfirmed or new phone is signed up.

    Raises the errors of the passwordless and sign-up endpoints.
    """
    config = conf.current()
    account_creation.check_sign_up_data(data, email="")
    user = queries.find_claimant("phone", identifiers.bare_phone(phone), aud=caller.audience)
    if user is None and not create_user and not config.signup.strict_privacy_enabled:
        raise errors.OtpDisabled
    if not config.signup.phone_enabled:
        raise errors.PhoneOtpDisabled
    number = identifiers.phone(phone)
    channel = identifiers.channel(channel)
    is_closed = config.signup.disabled and (user is None or user.phone_confirmed_at is None)
    if is_closed and not config.signup.strict_privacy_enabled:
        raise account_errors.SignupDisabled
    if is_closed or (user is None and not create_user):
        with messaging.sms_interval(IntervalGroup.PASSWORDLESS, address=number):
            sms_codes.check_sms(number, sender=Sender.of_request(caller), at=at)
        return sms_codes.simulate_send(number, at=at)
    auto_confirms = config.sms.autoconfirm
    signs_up = user is None or (user.phone_confirmed_at is None and _is_repeated(user, auto_confirms=auto_confirms))
    if not signs_up or auto_confirms:
        with messaging.sms_interval(IntervalGroup.PASSWORDLESS, address=number):
            sms_codes.reserve_sms(number, sender=Sender.of_request(caller), at=at)
    if user is None or signs_up:
        request = SignUpRequest(phone=number, password=None, data=data, channel=channel, redirect_to=config.site.url)
        result = sign_up.process_request(request, group=IntervalGroup.PASSWORDLESS, caller=caller, at=at)
        user = result.user
        if user.phone_confirmed_at is None:
            return result.message_id or str(uuid4())
    with messaging.reserved("sms"), transaction.atomic(durable=True):
        return sms_codes.send_sign_in_code(user, channel=channel, traits={"channel": channel}, caller=caller, at=at)


def _is_repeated(user: UserRecord, *, auto_confirms: bool) -> bool:
    """True if the request repeats the sign-up of an unconfirmed identifier.

    A magic link or code keeps the link of an invitation valid. With auto-confirm only the message proves an identifier
    that an account has already.
    """
    return not user.has_pending_invitation and not auto_confirms

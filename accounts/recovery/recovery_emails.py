"""Sends recovery emails to users and operators. Without an account the request takes as long and sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from django.db import transaction

from accounts import errors
from accounts.messages import confirmation_emails, recipients
from accounts.messages.confirmation_emails import ConfirmationEmail
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, IntervalGroup, Sender
from tokens.flows.pkce import Challenge


def send_recovery_email(
    *, email: str, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime
) -> None:
    """Send a recovery link and code.

    Raises MailRequestsDisabled, RecoveryAddressMissing, and the errors of an address and of sending an email.
    """
    address = _address(email)
    _send(
        confirmation_emails.RECOVERY,
        address,
        lambda: queries.find_claimant("email", address, aud=caller.audience),
        challenge=challenge,
        redirect_to=redirect_to,
        caller=caller,
        at=at,
    )


def send_operator_recovery_email(
    *, email: str, roles: Collection[str], page: str, caller: Caller, at: datetime
) -> None:
    """Send an operator a link to `page` of the console. Users of other roles count as addresses without an account.

    Raises as `send_recovery_email`.
    """
    address = _address(email)

    def find() -> UserRecord | None:
        user = queries.find_claimant("email", address, aud=caller.audience)
        # The link opens the console, so the address must have been proven before.
        return user if user is not None and user.role in roles and user.verified_email else None

    _send(confirmation_emails.OPERATOR_RECOVERY, address, find, challenge=None, redirect_to=page, caller=caller, at=at)


def _address(email: str) -> str:
    if not conf.current().signup.email_enabled:
        raise errors.MailRequestsDisabled
    if not email:
        raise errors.RecoveryAddressMissing
    return identifiers.email(email)


def _send(
    email: ConfirmationEmail,
    address: str,
    find: Callable[[], UserRecord | None],
    *,
    challenge: Challenge | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> None:
    """Send the email to the user that `find` returns; without one, take as long and send nothing."""
    with messaging.email_interval(IntervalGroup.PASSWORDLESS, address=address):
        user = find()
        reserve = recipients.check_email if user is None else recipients.reserve_email
        reserve(address, type=EmailType.RECOVERY, sender=Sender.of_request(caller))
    if user is None:
        confirmation_emails.simulate_send(email, address=address, at=at)
        return
    with messaging.reserved("email"), transaction.atomic(durable=True):
        confirmation_emails.send(email, user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at)

"""Sends the email that recovers an account whose password is lost."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts import errors
from accounts.messages import confirmation_emails, recipients
from accounts.users import identifiers, queries
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailKind, IntervalGroup
from tokens.flows.pkce import Challenge


def send_recovery_email(
    *, email: str, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime
) -> None:
    """Send a recovery link and code. Without an account the answer is the same, and no email is sent."""
    if not conf.current().signup.email_enabled:
        raise errors.MailRequestsDisabled
    if not email:
        raise errors.RecoveryAddressMissing
    address = identifiers.email(email)
    messaging.enforce_email_interval(IntervalGroup.PASSWORDLESS, address=address)
    user = queries.find_by("email", address, aud=caller.audience)
    if user is None:
        recipients.check_email(address, kind=EmailKind.RECOVERY)
        confirmation_emails.simulate_send(confirmation_emails.RECOVERY, address=address, at=at)
        return
    recipients.reserve_email(address, kind=EmailKind.RECOVERY)
    with transaction.atomic(durable=True):
        confirmation_emails.send(
            confirmation_emails.RECOVERY, user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at
        )

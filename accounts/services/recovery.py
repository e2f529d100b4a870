"""Asking for a way back into an account whose password is lost."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from accounts import errors, identifiers, notices, queries, recipients, records
from accounts.models import User
from authsvc.core import audit, messaging
from authsvc.core.caller import Caller
from authsvc.core.messaging import EmailKind, Group
from tokens.models import TokenType
from tokens.pkce import Challenge
from tokens.services import flows, one_time_tokens


def send(*, email: str, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime) -> None:
    """Mail a recovery link and code; an address without an account gets the same answer and no mail."""
    if not settings.AUTH.signup.email_enabled:
        raise errors.MailRequestsDisabled
    if not email:
        raise errors.RecoveryAddressMissing
    address = identifiers.email(email)
    messaging.space_out(Group.PASSWORDLESS, address=address)
    row = queries.by_email(address, aud=caller.audience)
    if row is None:
        recipients.feign(address, kind=EmailKind.RECOVERY)
        messaging.post_decoy()
        return
    user = records.read(row)
    recipients.admit(address, kind=EmailKind.RECOVERY)
    with transaction.atomic(durable=True):
        audit.record(audit.Action.RECOVERY_REQUESTED, actor=user, caller=caller, at=at)
        User.objects.filter(id=user.id).update(recovery_sent_at=at, updated_at=at)
        if challenge is not None:
            flows.begin(challenge=challenge, provider_type="recovery", method="recovery", user_id=user.id, at=at)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.RECOVERY, identifier=address, pkce=challenge is not None, at=at
        )
        messaging.post(notices.recovery(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at))

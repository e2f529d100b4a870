"""Mails whose link and code prove an address: the request noted, the secret stored, the mail announced, in one step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from django.db import transaction

from accounts.messages import notification_emails
from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import audit, messaging
from authsvc.audit import Action, PendingEntry
from authsvc.caller import Caller
from authsvc.messaging import Email
from tokens.flows import flow_states
from tokens.flows.pkce import Challenge
from tokens.models import TokenType
from tokens.one_time import one_time_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What tells one kind from the others."""

    action: Action
    sent_at: str
    """The user's column for the time of sending; `""` where that is written with the rest of the user."""
    token_type: TokenType
    provider_type: str
    method: str
    """Of the PKCE flow that its link belongs to, as is the type of provider."""
    notice: Callable[..., Email]


SIGN_UP = Letter(
    action=Action.CONFIRMATION_REQUESTED,
    sent_at="",
    token_type=TokenType.CONFIRMATION,
    provider_type="email",
    method="email/signup",
    notice=notification_emails.confirmation,
)
CONFIRMATION = dataclasses.replace(SIGN_UP, sent_at="confirmation_sent_at", provider_type="email/signup")
"""The same once more."""
RECOVERY = Letter(
    action=Action.RECOVERY_REQUESTED,
    sent_at="recovery_sent_at",
    token_type=TokenType.RECOVERY,
    provider_type="recovery",
    method="recovery",
    notice=notification_emails.recovery,
)
MAGIC_LINK = Letter(
    action=Action.RECOVERY_REQUESTED,
    sent_at="recovery_sent_at",
    token_type=TokenType.RECOVERY,
    provider_type="magiclink",
    method="magiclink",
    notice=notification_emails.magic_link,
)


def send(
    letter: Letter,
    user: UserRecord,
    *,
    challenge: Challenge | None,
    redirect_to: str,
    traits: Mapping[str, str] | None = None,
    caller: Caller,
    at: datetime,
) -> str:
    """Send a letter to the user's address and return the message's id. Joins the caller's transaction."""
    secret = one_time_tokens.generate(pkce=challenge is not None)
    token = one_time_tokens.hash_secret(secret, token_type=letter.token_type, identifier=user.email, at=at)
    with transaction.atomic(savepoint=False):
        entry = audit.prepare_entry(letter.action, actor=user, caller=caller, at=at, traits=traits)
        queries.note_request(user_id=user.id, sent_at=letter.sent_at, entry=entry, token=token)
        if challenge is not None:
            flow_states.start_email_flow(
                challenge=challenge,
                provider_type=letter.provider_type,
                method=letter.method,
                user_id=user.id,
                at=at,
            )
        message = letter.notice(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
        messaging.send(message)
    return str(message.id)


def pretend(letter: Letter, *, address: str, at: datetime) -> None:
    """Take the time of `send` where there is nobody to send anything to: the same statements, for a user of no row."""
    secret = one_time_tokens.generate(pkce=False)
    token = one_time_tokens.hash_secret(secret, token_type=letter.token_type, identifier=address, at=at)
    with transaction.atomic(savepoint=False):
        queries.note_request(
            user_id=uuid4(), sent_at=letter.sent_at, entry=PendingEntry(id=uuid4(), payload="{}"), token=token
        )
        messaging.simulate_send()

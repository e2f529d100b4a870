"""What an identity from elsewhere brings about in an account: its steps, shared by signing in, linking and inviting."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from accounts.identities.arrivals import Arrival
from accounts.messages import notification_emails, recipients
from accounts.models import Factor, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from accounts.profile import changes
from accounts.sign_up import account_creation
from accounts.users import queries, records
from accounts.users.records import UserRecord
from authsvc import messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailKind, IntervalGroup
from tokens.flows import flow_states
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle

_OURS = ("email", "phone")


class Overtaken(Exception):
    """What a decision was made on has changed meanwhile."""


def admit_confirmation(address: str) -> None:
    """Frequency, recipient and quota of the mail that asks to confirm an address, before anything is open."""
    messaging.enforce_email_interval(IntervalGroup.CONFIRMATION, address=address)
    recipients.admit(address, kind=EmailKind.CONFIRMATION)


def send_confirmation(user: UserRecord, *, redirect_to: str, caller: Caller, at: datetime) -> None:
    """Mail a link that confirms the user's address. Joins the caller's transaction."""
    secret = one_time_tokens.issue(
        user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=user.email, pkce=False, at=at
    )
    messaging.send(notification_emails.confirmation(user, secret=secret, redirect_to=redirect_to, caller=caller, at=at))


def take_over(user_id: UUID, *, but: UUID) -> None:
    """Take an account nobody has proved from whoever made it: password, number, ways in, all identities but one.

    Joins the caller's transaction.
    """
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user_id).update(
            password=None, phone=None, phone_confirmed_at=None, raw_user_meta_data={}, **changes.nothing_pending()
        )
        Identity.objects.filter(user_id=user_id).exclude(id=but).delete()
        _close_ways_in(user_id)
        one_time_tokens.delete_all(user_id)


def turn_out(user: UserRecord, *, said: Mapping[str, Any] | None = None, at: datetime) -> None:
    """Take identities from elsewhere off an account whose address nobody had proved, and what came with them.

    Whoever came in by one may be a stranger to the address that its owner proves now. The account is known by its own
    address, of which the client `said` this. Joins the caller's transaction, which has changed the user's row.
    """
    if all(provider in _OURS for provider in user.providers):
        return
    with transaction.atomic(savepoint=False):
        Identity.objects.filter(user_id=user.id).exclude(provider__in=_OURS).delete()
        if user.email and "email" not in user.providers:
            data = said or account_creation.first_identity_data(user_id=user.id, email=user.email, data={})
            account_creation.add_identity(user.id, provider="email", subject=str(user.id), said=data, at=at)
        _close_ways_in(user.id)
        know(user.id, at=at)


def _close_ways_in(user_id: UUID) -> None:
    for held in (Factor, Passkey, PasskeyChallenge, RecoveryCode):
        held._default_manager.filter(user_id=user_id).delete()
    lifecycle.revoke_all_sessions(user_id)
    flow_states.delete_user_flows(user_id)


def know(
    user_id: UUID, *, said: dict[str, Any] | None = None, signed_in_at: datetime | None = None, at: datetime
) -> UserRecord:
    """Bring a user's metadata in line with their identities, and with what one of them `said`. One statement.

    Joins the caller's transaction. Raises Overtaken when there is no such user any more.
    """
    kept = {key: value for key, value in (said or {}).items() if value is not None}
    with transaction.atomic(savepoint=False):
        row = queries.known_by(
            user_id=user_id,
            said=orjson.dumps(kept).decode(),
            unsaid=[key for key in said or {} if key not in kept],
            signed_in_at=signed_in_at,
            at=at,
        )
    if row is None:
        raise Overtaken
    return records.read(row)


def traits(identity_id: UUID, arrival: Arrival) -> dict[str, str]:
    """What the audit trail says of an identity."""
    return {"identity_id": str(identity_id), "provider": arrival.provider, "provider_id": arrival.subject}

"""Accepting an invitation with an identity from elsewhere instead of the link that was mailed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.identities import account_claiming
from accounts.identities.arrivals import Arrival
from accounts.models import User
from accounts.sign_up import account_creation
from accounts.users import queries, records
from accounts.users.records import UserRecord
from authsvc import audit
from authsvc.audit import Action
from authsvc.caller import Caller
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import StoredToken

Result = TypeVar("Result")


def is_open(link_hash: str, *, at: datetime) -> bool:
    """Whether an invitation, or another confirmation, with this digest of its link can still be accepted."""
    return _find(link_hash, at=at) is not None


def accept(
    arrival: Arrival,
    *,
    link_hash: str,
    then: Callable[[UserRecord], Result],
    starts_session: bool,
    caller: Caller,
    at: datetime,
) -> Result:
    """Give the invited account the identity, and do `then` with it, at once or not at all; the invitation is spent.

    Raises InviteNotFound, also when another request was first, InvitedEmailMismatch, IdentityNotCreated. Opens the
    transaction itself.
    """
    found = _find(link_hash, at=at)
    if found is None:
        raise errors.InviteNotFound
    invited, token = found
    if invited.email not in {each.email for each in arrival.addresses}:
        raise errors.InvitedEmailMismatch
    by = {"provider": arrival.provider}
    try:
        with transaction.atomic(durable=True):
            if queries.locked(invited.id) is None or not one_time_tokens.consume_all(
                token, user_id=invited.id, by_code=False
            ):
                raise errors.InviteNotFound
            identity = account_creation.add_identity(
                invited.id, provider=arrival.provider, subject=arrival.subject, said=arrival.said, at=at
            )
            audit.record(Action.INVITE_ACCEPTED, actor=invited, caller=caller, at=at, traits=by)
            account_claiming.take_over(invited.id, but=identity.id)
            User.objects.filter(id=invited.id).update(email_confirmed_at=at)
            said = {**arrival.said, "email_verified": True}
            return then(
                account_claiming.know(invited.id, said=said, signed_in_at=at if starts_session else None, at=at)
            )
    except IntegrityError:
        raise errors.IdentityNotCreated from None


def _find(link_hash: str, *, at: datetime) -> tuple[UserRecord, StoredToken] | None:
    row = queries.with_token_of_link(link_hash=link_hash, token_types=[str(TokenType.CONFIRMATION)])
    if row is None:
        return None
    user, token = records.read(row), one_time_tokens.from_row(row[queries.USER_WIDTH :])
    return (user, token) if token.is_fresh(at) else None

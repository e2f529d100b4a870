"""Acceptance of an invitation by signing in at a provider, instead of opening the mailed link."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError

from accounts.identities import account_claiming, errors
from accounts.identities import queries as identity_queries
from accounts.identities.external_identity import ExternalIdentity
from accounts.models import User
from accounts.users import account_creation, queries, user_events
from accounts.users.records import UserRecord
from authsvc import audit
from authsvc.audit import Action
from authsvc.caller import Caller
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import StoredToken
from tokens.sessions.errors import UserBanned


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """An invited user, or another user with an unconfirmed address, and the unused token of their email."""

    user: UserRecord
    token: StoredToken


def find(link_hash: str, *, at: datetime) -> Invitation | None:
    """The invitation whose link has this digest; None when it is used, unknown or too old."""
    match = queries.find_by_link(link_hash=link_hash, token_types=[str(TokenType.CONFIRMATION)])
    if match is None:
        return None
    user, columns = match
    token = one_time_tokens.from_row(columns)
    return Invitation(user=user, token=token) if token.is_fresh(at) and not user.has_unproven_claim("email") else None


def find_for(identity: ExternalIdentity, *, link_hash: str, at: datetime) -> Invitation:
    """The invitation that an identity may accept. Raises InviteNotFound, InvitedEmailMismatch."""
    invitation = find(link_hash, at=at)
    if invitation is None:
        raise errors.InviteNotFound
    if invitation.user.email not in {address.email for address in identity.addresses}:
        raise errors.InvitedEmailMismatch
    return invitation


def accept(
    invitation: Invitation, identity: ExternalIdentity, *, starts_session: bool, caller: Caller, at: datetime
) -> UserRecord:
    """Spend the invitation, add the identity to the invited account and confirm the account's address.

    Must run inside a transaction. Raises InviteNotFound when another request was first, UserBanned, and
    IdentityNotCreated when another account has the identity.
    """
    user = queries.lock(invitation.user.id)
    if user is None:
        raise errors.InviteNotFound
    if user.is_banned(at):
        raise UserBanned
    if not one_time_tokens.consume_all(invitation.token, user_id=user.id, by_code=False):
        raise errors.InviteNotFound
    if identity.former_subject and identity_queries.find_identity(identity) is not None:
        raise errors.IdentityNotCreated
    try:
        added = account_creation.add_identity(
            user.id, provider=identity.provider, subject=identity.subject, identity_data=identity.identity_data, at=at
        )
    except IntegrityError:
        raise errors.IdentityNotCreated from None
    traits = {"provider": identity.provider}
    audit.record(Action.INVITE_ACCEPTED, actor=user, caller=caller, at=at, traits=traits)
    account_claiming.claim_unverified_account(user, keep_identity=added.id, at=at)
    User.objects.filter(id=user.id).update(email_confirmed_at=at)
    with user_events.changes_of(user, at=at):
        return account_claiming.merge_user_metadata(
            user.id,
            identity_data={**identity.identity_data, "email_verified": True},
            signed_in_at=at if starts_session else None,
            at=at,
        )

"""Linking a further identity to an account, and unlinking one that is not the last."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.identities import account_claiming, errors
from accounts.identities import queries as identity_queries
from accounts.identities.external_identity import ExternalIdentity
from accounts.messages import confirmation_emails, notification_emails
from accounts.models import Identity, User
from accounts.passwords import change_proofs
from accounts.users import account_creation, queries, updates, user_events
from accounts.users.records import IdentityRecord, UserRecord
from authsvc import audit, messaging
from authsvc.audit import Action
from authsvc.caller import Caller
from authsvc.db.fields import parse_json
from authsvc.events import EventType
from authsvc.messaging import Sender
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.sessions import locks
from tokens.sessions.errors import UserBanned, UserNotFoundForToken
from tokens.sessions.users import SignedInUser


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityLinkRequest:
    """An identity and the account that it is to be linked to."""

    identity: ExternalIdentity
    user: UserRecord
    keeps_contacts: bool
    """The account gets no address from the identity, because a new address needs a proof that linking cannot carry."""

    @property
    def new_email(self) -> str:
        """The address that an account without one gets from the identity, `""` to leave the account's as it is."""
        return "" if self.user.email or self.keeps_contacts else self.identity.email

    @property
    def is_verified(self) -> bool:
        """The provider has verified the account's new address, or there is none to verify."""
        return not self.new_email or self.identity.is_email_verified

    @property
    def error(self) -> errors.LinkedEmailNotVerified | None:
        """The error to raise after the commit; None when the identity counts at once."""
        return None if self.is_verified else errors.LinkedEmailNotVerified(self.identity.provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    user: UserRecord
    error: errors.LinkedEmailNotVerified | None
    """The caller raises it after the commit, without starting a session."""


def prepare(
    identity: ExternalIdentity, signed_in: SignedInUser, *, caller: Caller, at: datetime
) -> IdentityLinkRequest:
    """Check that the identity can be linked, and reserve the confirmation email that linking will send, if any.

    Call it before the transaction, because it may use the network. Raises IdentityAlreadyLinked,
    IdentityOfAnotherUser, LinkedEmailExists and the errors of sending an email.
    """
    request = IdentityLinkRequest(
        identity=identity,
        user=queries.get_user_record(signed_in),
        keeps_contacts=change_proofs.is_needed(signed_in, at=at),
    )
    _check(request)
    if not request.is_verified:
        sender = Sender.of_request(caller, user_id=request.user.id)
        confirmation_emails.reserve_confirmation(request.new_email, sender=sender)
    return request


def lock_user(signed_in: SignedInUser, *, at: datetime) -> UserRecord:
    """Lock the account until the end of the caller's transaction and read it, with the session that links.

    The session and its level may have changed since the link was requested. Raises UserNotFound, SessionNotFound,
    LinkingNeedsAal2, UserBanned.
    """
    try:
        locked = locks.lock_for_credential_change(signed_in, error=errors.LinkingNeedsAal2)
    except UserNotFoundForToken:
        raise account_errors.UserNotFound from None
    user = queries.get_user_record(locked)
    if user.is_banned(at):
        raise UserBanned
    return user


def link(
    request: IdentityLinkRequest,
    user: UserRecord,
    *,
    starts_session: bool,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Linked:
    """Add the identity to the account, which `lock_user` has locked and read as `user`.

    An account without an address gets the identity's if the provider has verified it; otherwise it becomes a pending
    change with a mailed link. An anonymous user becomes permanent once it is verified. Must run inside a transaction.
    Raises the errors of `prepare`, and IdentityNotCreated when the request needs an email that `prepare` has not
    reserved.
    """
    is_reserved = not request.is_verified
    if user.email != request.user.email:
        request = dataclasses.replace(request, user=user)
        _check(request)
        if not request.is_verified and not is_reserved:
            raise errors.IdentityNotCreated
    try:
        with transaction.atomic(), user_events.changes_of(user, at=at):
            linked = _apply(request, starts_session=starts_session, caller=caller, at=at)
    except IntegrityError:
        _check(request)  # raises when another request has taken the identity or the address
        raise errors.IdentityNotCreated from None
    if not request.is_verified:
        confirmation_emails.send_new_address(
            linked, email=request.new_email, redirect_to=redirect_to, caller=caller, at=at
        )
    return Linked(user=linked, error=request.error)


def unlink(signed_in: SignedInUser, user: UserRecord, *, identity_id: UUID, caller: Caller, at: datetime) -> None:
    """Remove an identity from a user who has another; its address is then replaced by that of another identity.

    Every unused link and code of the user becomes invalid, and pending changes are withdrawn. Opens the transaction.
    Raises LinkingNeedsAal2, SingleIdentity, IdentityNotFound, NoFreeEmail, AddressChangeNeedsProof,
    LastContactNeedsProof.
    """
    with transaction.atomic(durable=True), user_events.changes_of(user, at=at):
        locked = locks.lock_for_credential_change(signed_in, error=errors.LinkingNeedsAal2)
        user = queries.get_user_record(locked)
        if len(user.identities) < 2:
            raise errors.SingleIdentity
        removed = next((identity for identity in user.identities if identity.id == str(identity_id)), None)
        if removed is None:
            raise errors.IdentityNotFound
        remaining = [identity for identity in user.identities if identity is not removed]
        traits = {"identity_id": removed.id, "provider": removed.provider, "provider_id": removed.provider_id}
        audit.record(Action.IDENTITY_UNLINKED, actor=user, caller=caller, at=at, traits=traits)
        user_events.record_identity(EventType.IDENTITY_UNLINKED, user.id, removed, at=at)
        Identity.objects.filter(id=identity_id, user_id=user.id).delete()
        keeps_contacts = change_proofs.is_needed(locked, at=at)
        if removed.provider == "phone":
            columns: dict[str, Any] = {"phone": None, "phone_confirmed_at": None}
        else:
            columns = _replacement_email(user, remaining, keeps_contacts=keeps_contacts, at=at)
        has_contact = columns.get("email", user.email) or columns.get("phone", user.phone)
        if keeps_contacts and (user.email or user.phone) and not has_contact:
            # A user without a contact adds the first one without that proof.
            raise errors.LastContactNeedsProof
        pending = updates.cleared_pending_changes(keeps_confirmation="email" not in columns)
        try:
            User.objects.filter(id=user.id).update(**pending, **columns)
        except IntegrityError:
            raise errors.NoFreeEmail from None  # another request was first
        # The removed phone or mailbox, or a sign-in at the removed provider, may have got them.
        one_time_tokens.delete_all(user.id)
        flow_states.delete_user_flows(user.id)
        account_claiming.merge_user_metadata(user.id, at=at)
        if user.email:
            messaging.send(notification_emails.identity_unlinked(user, provider=removed.provider))


def choose_primary_email(email: str, remaining: Sequence[IdentityRecord], *, taken: Collection[str]) -> str | None:
    """The replacement for an account's `email`, `""` for none; None when a remaining identity still has `email`.

    `remaining` is in order of creation; `taken` are addresses of other accounts. An unverified address counts as none.
    Raises NoFreeEmail when every remaining identity has a verified address that is taken.
    """
    if email and any(identity.email == email for identity in remaining):
        return None
    verified = [identity.email for identity in remaining if identity.email and _has_verified_email(identity)]
    free = next((address for address in verified if address not in taken), "")
    if not free and len(verified) == len(remaining):
        raise errors.NoFreeEmail
    return free


def _check(request: IdentityLinkRequest) -> None:
    identity, user = request.identity, request.user
    linked = identity_queries.find_identity(identity)
    if linked is not None:
        raise errors.IdentityAlreadyLinked if linked[0].id == user.id else errors.IdentityOfAnotherUser
    if request.new_email and _claimant(request) is None and _emails_of_others([request.new_email], user=user):
        raise errors.LinkedEmailExists


def _claimant(request: IdentityLinkRequest) -> UserRecord | None:
    """The account of another person that loses the identity's verified address, because it has not confirmed it."""
    if not (request.new_email and request.is_verified):
        return None
    other = queries.find_by("email", request.new_email, aud=None)
    return other if other is not None and other.id != request.user.id and other.has_unproven_claim("email") else None


def _apply(request: IdentityLinkRequest, *, starts_session: bool, caller: Caller, at: datetime) -> UserRecord:
    """Add the identity, and the verified address to an account without one. Returns the updated user."""
    identity, user, email = request.identity, request.user, request.new_email
    added = account_creation.add_identity(
        user.id, provider=identity.provider, subject=identity.subject, identity_data=identity.identity_data, at=at
    )
    traits = identity.audit_traits(added.id)
    audit.record(Action.IDENTITY_LINKED, actor=user, caller=caller, at=at, traits=traits)
    columns: dict[str, Any] = {}
    if email and request.is_verified:
        claimant = _claimant(request)
        if claimant is not None:
            account_claiming.withdraw_claim(claimant, "email", at=at)
        one_time_tokens.delete_all(user.id)
        metadata = updates.merged_json("raw_user_meta_data", {"email_verified": True})
        pending = updates.cleared_pending_changes(keeps_confirmation=True)
        columns = {**pending, "email": email, "raw_user_meta_data": metadata}
        columns["email_confirmed_at"] = at
    if user.is_anonymous and request.is_verified:
        columns["is_anonymous"] = False
    if columns:
        User.objects.filter(id=user.id).update(**columns)
    signed_in_at = at if starts_session and request.is_verified else None
    linked = account_claiming.merge_user_metadata(user.id, signed_in_at=signed_in_at, at=at)
    if linked.email and request.is_verified:
        messaging.send(notification_emails.identity_linked(linked, provider=identity.provider))
    return linked


def _replacement_email(
    user: UserRecord, remaining: list[IdentityRecord], *, keeps_contacts: bool, at: datetime
) -> dict[str, Any]:
    """Column values that replace the user's address by one of a remaining identity; empty to keep it.

    It is replaced when the removed identity was its source. Raises AddressChangeNeedsProof where the user would get an
    address in spite of `keeps_contacts`.
    """
    taken = _emails_of_others([identity.email for identity in remaining if identity.email], user=user)
    email = choose_primary_email(user.email, remaining, taken=taken)
    if email is None:
        return {}
    if not email:
        metadata = updates.merged_json("raw_user_meta_data", {"email_verified": False})
        return {"email": None, "email_confirmed_at": None, "raw_user_meta_data": metadata}
    if keeps_contacts:
        raise errors.AddressChangeNeedsProof
    return {"email": email, "email_confirmed_at": user.email_confirmed_at or at}


def _emails_of_others(emails: list[str], *, user: UserRecord) -> set[str]:
    """The addresses of other accounts among `emails`, in all audiences."""
    rows = identity_queries.address_owners(emails, audience=user.aud) if emails else []
    return {email for owner_id, provider, email, *_ in rows if provider is None and owner_id != user.id}


def _has_verified_email(identity: IdentityRecord) -> bool:
    data = parse_json(identity.data_json)
    return isinstance(data, dict) and data.get("email_verified") is True

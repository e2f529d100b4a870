"""Sign-in with an external identity: finds the account, or creates it, and updates it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.identities import account_claiming, account_matching, errors
from accounts.identities import queries as identity_queries
from accounts.identities.account_claiming import AccountChanged
from accounts.identities.account_matching import AddressOwner, MatchOutcome
from accounts.identities.external_identity import ExternalIdentity
from accounts.messages import confirmation_emails, notification_emails
from accounts.models import Identity, User
from accounts.users import account_creation, creation_hook, queries, user_events
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.audit import Action
from authsvc.caller import Caller
from authsvc.messaging import Sender
from tokens.one_time import one_time_tokens
from tokens.sessions.errors import UserBanned

Result = TypeVar("Result")

# Several sign-ins of a new user at once change the account one after the other.
_MAX_ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMatch:
    """An external identity and the account that it signs in to."""

    identity: ExternalIdentity
    user: UserRecord | None
    """None: a new account is created."""
    identity_id: UUID | None = None
    """None: no account has the identity yet."""
    email: str
    """The account's address, `""` for none."""
    new_user_id: UUID | None = None
    """The id for a new account, once the hook has been asked."""
    claimant_id: UUID | None = None
    """The account of another person that has claimed the address without confirming it, and loses it."""

    @property
    def needs_verification(self) -> bool:
        """The account's address has to be verified first."""
        if not self.identity.needs_address or (self.identity.email_optional and not self.email):
            return False
        if self.user is None:
            return True
        if self.user.confirmed_at is not None:
            return False
        # An identity that a signed-in user has linked needs no address.
        return bool(self.email) or not self.user.is_controlled

    @property
    def is_verified(self) -> bool:
        """The identity proves the account's address. Auto-confirm counts only for the address of a new account."""
        if self.user is None and self.email and conf.current().mailer.autoconfirm:
            return True
        return self.identity.verifies(self.email)

    @property
    def is_pending(self) -> bool:
        """The address is unconfirmed and the account is used without it, so it is stored as a pending change."""
        is_used = conf.current().mailer.allow_unverified_email_sign_ins or (
            self.user is not None and self.user.is_controlled
        )
        return bool(self.confirmation_recipient) and is_used

    @property
    def confirmation_recipient(self) -> str:
        """The address that gets a confirmation email, `""` for none."""
        return self.email if self.needs_verification and not self.is_verified else ""

    @property
    def error(self) -> errors.ProviderEmailNotVerified | None:
        """The error to raise after the commit; None when the user is signed in."""
        if not self.needs_verification or self.is_verified or conf.current().mailer.allow_unverified_email_sign_ins:
            return None
        return errors.ProviderEmailNotVerified(self.identity.provider, is_mailed=bool(self.email))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSignIn:
    user: UserRecord
    error: errors.ProviderEmailNotVerified | None
    """The caller raises it after the commit, without starting a session; None when the user is signed in."""


def prepare(identity: ExternalIdentity, *, caller: Caller, at: datetime, reserved: str = "") -> AccountMatch:
    """Find the account and reserve the confirmation email that the sign-in will send, if any.

    Call it before the transaction, because it may use the network. `reserved` is the address whose email an earlier
    call has reserved already. Raises SignupDisabled, AmbiguousAccount, UserBanned and the errors of sending an email.
    """
    match = find_account(identity, caller=caller, at=at)
    if match.confirmation_recipient not in ("", reserved):
        confirmation_emails.reserve_confirmation(match.confirmation_recipient, sender=Sender.of_request(caller))
    return match


def attempt(
    identity: ExternalIdentity, store: Callable[[AccountMatch], Result], *, caller: Caller, at: datetime
) -> Result:
    """Prepare a sign-in and store it; again if another request has changed the account meanwhile.

    `store` opens the transaction and calls `sign_in`. Raises the errors of both, IdentityNotCreated after the last
    attempt.
    """
    reserved = ""
    for _ in range(_MAX_ATTEMPTS - 1):
        match = prepare(identity, caller=caller, at=at, reserved=reserved)
        reserved = match.confirmation_recipient or reserved
        with contextlib.suppress(errors.IdentityNotCreated):
            return _store(match, store, caller=caller)
    return _store(prepare(identity, caller=caller, at=at, reserved=reserved), store, caller=caller)


def _store(match: AccountMatch, store: Callable[[AccountMatch], Result], *, caller: Caller) -> Result:
    """Store a sign-in between the calls of the hook for new users, which need to be outside of the transaction."""
    if match.user is not None:
        return store(match)
    identity = match.identity
    user_id = creation_hook.check(
        email=match.email, provider=identity.provider, user_metadata=identity.identity_data, caller=caller
    )
    try:
        result = store(replace(match, new_user_id=user_id))
    except errors.ProviderEmailNotVerified:  # raised after the commit
        _announce(user_id, caller=caller)
        raise
    _announce(user_id, caller=caller)
    return result


def _announce(user_id: UUID, *, caller: Caller) -> None:
    user = queries.get(user_id) if creation_hook.is_announced() else None
    if user is not None:
        creation_hook.announce(user, caller=caller)


def find_account(identity: ExternalIdentity, *, caller: Caller, at: datetime) -> AccountMatch:
    """Find the account of an identity. One statement when an account has the identity, else two to four."""
    existing = identity_queries.find_identity(identity)
    if existing is not None:
        user, identity_id = existing
        _check_not_banned(user, caller=caller, at=at)
        return AccountMatch(identity=identity, user=user, identity_id=identity_id, email=user.email)
    domains = conf.current().federation.domain_by_provider
    decision = account_matching.match_account(
        provider=identity.provider,
        candidate=identity.candidate.email,
        verified=identity.verified_emails,
        owners=_address_owners(identity, audience=caller.audience),
        audience=caller.audience,
        domains=domains,
    )
    match decision.outcome:
        case MatchOutcome.AMBIGUOUS:
            raise errors.AmbiguousAccount(account_matching.linking_domain(identity.provider, domains))
        case MatchOutcome.LINK if decision.user_id is not None:
            owner = queries.get(decision.user_id)
            if owner is None:
                raise errors.IdentityNotCreated  # deleted since the previous statement
            _check_not_banned(owner, caller=caller, at=at)
            return AccountMatch(identity=identity, user=owner, email=owner.email)
        case _:
            if conf.current().signup.disabled:
                raise account_errors.SignupDisabled
            return AccountMatch(identity=identity, user=None, email=decision.email, claimant_id=decision.claimant_id)


def sign_in(
    match: AccountMatch, *, starts_session: bool, redirect_to: str, caller: Caller, at: datetime
) -> ExternalSignIn:
    """Store the identity and bring its account up to date; send the confirmation email where the address needs it.

    Must run inside a transaction. Raises UserBanned, and IdentityNotCreated when another request has changed the
    account since `prepare`: the caller rolls back and may begin once more with `prepare`.
    """
    try:
        user = _apply(match, starts_session=starts_session, redirect_to=redirect_to, caller=caller, at=at)
    except (IntegrityError, AccountChanged):
        raise errors.IdentityNotCreated from None
    return ExternalSignIn(user=user, error=match.error)


def _check_not_banned(user: UserRecord, *, caller: Caller, at: datetime) -> None:
    caller.audit.account = user
    if user.is_banned(at):
        raise UserBanned


def _address_owners(identity: ExternalIdentity, *, audience: str) -> list[AddressOwner]:
    candidate = identity.candidate.email
    emails = {*identity.verified_emails, *([candidate] if candidate else [])}
    rows = identity_queries.address_owners(sorted(emails), audience=audience) if emails else []
    return [
        AddressOwner(
            user_id=user_id,
            provider=provider,
            email=email,
            verified=bool(verified),
            audience=owner_audience or "",
            is_claim=is_claim,
        )
        for user_id, provider, email, verified, owner_audience, is_claim in rows
    ]


def _apply(match: AccountMatch, *, starts_session: bool, redirect_to: str, caller: Caller, at: datetime) -> UserRecord:
    """Create or update the account, record the sign-in, and send the email that it needs; returns the user."""
    signed_in_at = at if starts_session and match.error is None else None
    is_linked = match.user is not None and match.identity_id is None
    if match.user is None:
        user = _create(match, audience=caller.audience, signed_in_at=signed_in_at, at=at)
    else:
        with user_events.changes_of(match.user, at=at):
            user = _update(match, match.user, signed_in_at=signed_in_at, caller=caller, at=at)
    if user.is_banned(at):
        raise UserBanned
    traits = {"provider": match.identity.provider}
    if not match.needs_verification:
        audit.record(Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    elif match.is_verified:
        audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits=traits)
    elif match.is_pending:
        confirmation_emails.send_new_address(
            user, email=match.confirmation_recipient, redirect_to=redirect_to, caller=caller, at=at
        )
    elif match.confirmation_recipient:
        confirmation_emails.send_confirmation(user, redirect_to=redirect_to, caller=caller, at=at)
    if is_linked and not match.needs_verification and user.email:
        messaging.send(notification_emails.identity_linked(user, provider=match.identity.provider))
    return user


def _create(match: AccountMatch, *, audience: str, signed_in_at: datetime | None, at: datetime) -> UserRecord:
    """Create the account of a new user with the identity. Another account loses the claimed address."""
    identity = match.identity
    claimant = queries.get(match.claimant_id) if match.claimant_id else None
    if claimant is not None:
        account_claiming.withdraw_claim(claimant, "email", at=at)
    domain = account_matching.linking_domain(identity.provider, conf.current().federation.domain_by_provider)
    return account_creation.create_user_from_provider(
        email="" if match.is_pending else match.email,
        provider=identity.provider,
        subject=identity.subject,
        identity_data=identity.identity_data,
        is_sso_user=domain != account_matching.DEFAULT_DOMAIN,
        audience=audience,
        email_confirmed_at=at if match.needs_verification and match.is_verified else None,
        confirmation_sent_at=at if match.confirmation_recipient and not match.is_pending else None,
        last_sign_in_at=signed_in_at,
        at=at,
        id=match.new_user_id or uuid4(),
    )


def _update(
    match: AccountMatch, user: UserRecord, *, signed_in_at: datetime | None, caller: Caller, at: datetime
) -> UserRecord:
    """Update an existing account from its identity, and add the identity where the account does not have it.

    Raises AccountChanged when the account or the identity has changed since `find_account`.
    """
    identity, identity_id = match.identity, match.identity_id
    user_data = dict(identity.identity_data)
    is_disputed = False
    is_locked = identity_id is None or match.needs_verification or not user.names_providers
    if is_locked:
        _lock_unchanged(user)
    if identity_id is None:
        added = account_creation.add_identity(
            user.id, provider=identity.provider, subject=identity.subject, identity_data=identity.identity_data, at=at
        )
        traits = identity.audit_traits(added.id)
        audit.record(Action.IDENTITY_LINKED, actor=user, caller=caller, at=at, traits=traits)
        if match.needs_verification and not user.is_controlled:
            account_claiming.claim_unverified_account(user, keep_identity=added.id, at=at)
    elif match.needs_verification and not user.is_controlled and (user.password_hash or len(user.identities) > 1):
        # Another person has signed up with the address, and neither has proved that it is theirs.
        is_disputed = not match.is_verified and not match.is_pending
        if not is_disputed:
            account_claiming.claim_unverified_account(user, keep_identity=identity_id, at=at)
    if match.is_verified and user.email_confirmed_at is None and (match.needs_verification or user.email):
        one_time_tokens.delete_all(user.id)
        User.objects.filter(id=user.id).update(email_confirmed_at=at)
        user_data["email_verified"] = True
    elif match.is_pending and user.has_unproven_claim("email"):
        account_claiming.withdraw_own_claim(user, "email", at=at)
    elif match.confirmation_recipient and not match.is_pending:
        User.objects.filter(id=user.id).update(confirmation_sent_at=at)
    # The user's row before the identity's, as everywhere, so that concurrent requests cannot deadlock.
    updated = account_claiming.merge_user_metadata(
        user.id, identity_data=user_data, keeps_providers=not is_locked, signed_in_at=signed_in_at, at=at
    )
    if identity_id is not None:
        rows = Identity.objects.filter(id=identity_id, user_id=user.id)
        # An identity that is stored under its former key gets the one with the tenant.
        key = {"provider_id": identity.subject} if identity.scope else {}
        if not rows.update(**key, identity_data=dict(identity.identity_data), last_sign_in_at=at, updated_at=at):
            raise AccountChanged
    return account_claiming.dispute_unverified_account(updated, at=at) if is_disputed else updated


def _lock_unchanged(user: UserRecord) -> None:
    """Lock the user's row.

    Raises AccountChanged when its address or confirmation is no longer the one in `user`, or when a person has gained
    control of it.
    """
    with transaction.atomic(savepoint=False):
        current = queries.lock(user.id)
    if current is None or _state(current) != _state(user):
        raise AccountChanged


def _state(user: UserRecord) -> tuple[object, ...]:
    return user.email, user.email_confirmed_at, user.is_controlled

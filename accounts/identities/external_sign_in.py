"""Signing in with an identity from elsewhere: whose account it is, and what becomes of that account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.identities import account_claiming, account_matching
from accounts.identities.account_matching import Kind, Owner
from accounts.identities.arrivals import Arrival
from accounts.messages import notification_emails
from accounts.models import Identity, User
from accounts.sign_up import account_creation
from accounts.users import queries, records
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.audit import Action
from authsvc.caller import Caller
from tokens.one_time import one_time_tokens

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An arrival with the account that it leads to."""

    arrival: Arrival
    user: UserRecord | None
    """None: a new one."""
    identity_id: UUID | None = None
    """None: an identity that nobody has yet."""
    email: str
    """The account's address, `""` for none."""

    @property
    def needs_proof(self) -> bool:
        """Whether the account is nobody's until its address is proved."""
        if self.arrival.email_optional and not self.email:
            return False
        return self.user is None or self.user.email_confirmed_at is None

    @property
    def is_proved(self) -> bool:
        return self.arrival.proves(self.email, of=self.arrival.wanted)

    @property
    def mails_to(self) -> str:
        """Whom a confirmation is sent to, `""` for nobody."""
        return self.email if self.needs_proof and not self.is_proved else ""

    @property
    def refusal(self) -> errors.ProviderEmailNotVerified | None:
        """What is said once all this is stored; None when they are in."""
        if not self.needs_proof or self.is_proved or conf.current().mailer.allow_unverified_email_sign_ins:
            return None
        return errors.ProviderEmailNotVerified(self.arrival.provider, is_mailed=bool(self.email))


def enter(
    arrival: Arrival,
    *,
    then: Callable[[UserRecord], Result],
    starts_session: bool,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Result:
    """Bring somebody to their account, old or new, and do `then` with it, at once or not at all.

    Raises SignupDisabled, SeveralAccounts, UserBanned, what refuses a mail, and ProviderEmailNotVerified once the
    account is stored. Opens the transaction itself.
    """
    mailed = False
    for is_last in (False, True):
        resolved = resolve(arrival, audience=caller.audience, at=at)
        if resolved.mails_to and not mailed:
            account_claiming.admit_confirmation(resolved.mails_to)
            mailed = True
        try:
            with transaction.atomic(durable=True):
                user = _apply(resolved, starts_session=starts_session, redirect_to=redirect_to, caller=caller, at=at)
                if resolved.refusal is None:
                    return then(user)
        except (IntegrityError, account_claiming.Overtaken):
            if is_last:
                raise errors.IdentityNotCreated from None
            continue
        raise resolved.refusal
    raise AssertionError  # the second round returns or raises


def resolve(arrival: Arrival, *, audience: str, at: datetime) -> Resolved:
    """Whose account this is. One statement for somebody who was here before, else two or three."""
    row = queries.by_identity(provider=arrival.provider, provider_id=arrival.subject)
    if row is not None:
        user = records.read(row)
        if user.is_banned(at):
            raise errors.UserBanned
        return Resolved(arrival=arrival, user=user, identity_id=row[queries.USER_WIDTH], email=user.email)
    domains = conf.current().federation.linking_domains
    decision = account_matching.decide(
        provider=arrival.provider,
        wanted=arrival.wanted,
        proved=arrival.proved,
        owners=_owners(arrival),
        audience=audience,
        domains=domains,
    )
    match decision.kind:
        case Kind.SEVERAL:
            raise errors.SeveralAccounts(arrival.linking_domain)
        case Kind.LINK if decision.user_id is not None:
            row = queries.by_id(decision.user_id)
            if row is None:
                raise errors.IdentityNotCreated  # deleted this very moment
            user = records.read(row)
            if user.is_banned(at):
                raise errors.UserBanned
            return Resolved(arrival=arrival, user=user, email=user.email)
        case _:
            if conf.current().signup.disabled:
                raise errors.SignupDisabled
            return Resolved(arrival=arrival, user=None, email=decision.email)


def _owners(arrival: Arrival) -> list[Owner]:
    emails = {*arrival.proved, *([arrival.wanted.email] if arrival.wanted.email else [])}
    found = queries.owners(sorted(emails)) if emails else []
    return [
        Owner(user_id=user_id, provider=provider, email=email, verified=bool(verified), audience=audience or "")
        for user_id, provider, email, verified, audience in found
    ]


def _apply(resolved: Resolved, *, starts_session: bool, redirect_to: str, caller: Caller, at: datetime) -> UserRecord:
    arrival = resolved.arrival
    signed_in_at = at if starts_session and resolved.refusal is None else None
    is_linked = False
    if resolved.user is None:
        user = _create(resolved, audience=caller.audience, signed_in_at=signed_in_at, at=at)
    else:
        is_linked = resolved.identity_id is None
        user = _join(resolved, resolved.user, signed_in_at=signed_in_at, caller=caller, at=at)
    if user.is_banned(at):
        raise errors.UserBanned
    by = {"provider": arrival.provider}
    if not resolved.needs_proof:
        audit.record(Action.LOGIN, actor=user, caller=caller, at=at, traits=by)
    elif resolved.is_proved:
        audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits=by)
    elif user.email:
        account_claiming.send_confirmation(user, redirect_to=redirect_to, caller=caller, at=at)
    if is_linked and not resolved.needs_proof and user.email:
        messaging.send(notification_emails.identity_linked(user, provider=arrival.provider))
    return user


def _create(resolved: Resolved, *, audience: str, signed_in_at: datetime | None, at: datetime) -> UserRecord:
    arrival = resolved.arrival
    return account_creation.insert_from_provider(
        email=resolved.email,
        provider=arrival.provider,
        subject=arrival.subject,
        said=arrival.said,
        is_sso_user=arrival.linking_domain != account_matching.DEFAULT_DOMAIN,
        audience=audience,
        email_confirmed_at=at if resolved.needs_proof and resolved.is_proved else None,
        confirmation_sent_at=at if resolved.mails_to else None,
        last_sign_in_at=signed_in_at,
        at=at,
    )


def _join(
    resolved: Resolved, found: UserRecord, *, signed_in_at: datetime | None, caller: Caller, at: datetime
) -> UserRecord:
    """Let an existing account have what its identity says now; the identity is added where it is new.

    Raises Overtaken when the account or the identity is not what the decision was made on.
    """
    arrival, identity_id = resolved.arrival, resolved.identity_id
    said = dict(arrival.said)
    if identity_id is None or resolved.needs_proof:
        _insist(found)
    if identity_id is None:
        identity = account_creation.add_identity(
            found.id, provider=arrival.provider, subject=arrival.subject, said=said, at=at
        )
        audit.record(
            Action.IDENTITY_LINKED,
            actor=found,
            caller=caller,
            at=at,
            traits=account_claiming.traits(identity.id, arrival),
        )
        if resolved.needs_proof:
            account_claiming.take_over(found.id, but=identity.id)
    elif resolved.needs_proof and (found.password_hash or len(found.identities) > 1):
        account_claiming.take_over(found.id, but=identity_id)
    if resolved.needs_proof and resolved.is_proved:
        one_time_tokens.delete_all(found.id)
        User.objects.filter(id=found.id).update(email_confirmed_at=at)
        said["email_verified"] = True
    elif resolved.mails_to:
        User.objects.filter(id=found.id).update(confirmation_sent_at=at)
    # The user before the identity, as everywhere: two requests that lock in different orders block each other.
    user = account_claiming.know(found.id, said=said, signed_in_at=signed_in_at, at=at)
    if identity_id is not None:
        mine = Identity.objects.filter(id=identity_id, user_id=found.id)
        if not mine.update(identity_data=dict(arrival.said), last_sign_in_at=at, updated_at=at):
            raise account_claiming.Overtaken
    return user


def _insist(found: UserRecord) -> None:
    """Lock an account that is about to change hands, or to gain an identity, as long as it is what it was."""
    with transaction.atomic(savepoint=False):
        row = queries.locked(found.id)
    now = records.read(row) if row else None
    if now is None or (now.email, now.email_confirmed_at) != (found.email, found.email_confirmed_at):
        raise account_claiming.Overtaken

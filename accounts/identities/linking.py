"""A signed-in user's further identities: linking one, and unlinking one that is not the last."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.identities import account_claiming, primary_email
from accounts.identities.arrivals import Arrival
from accounts.messages import notification_emails
from accounts.models import Identity, User
from accounts.profile import changes
from accounts.sign_up import account_creation
from accounts.users import json_columns, queries, records
from accounts.users.records import IdentityRecord, UserRecord
from authsvc import audit, conf, messaging
from authsvc.audit import Action
from authsvc.caller import Caller
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle
from tokens.sessions.users import SignedInUser

Result = TypeVar("Result")


def link(
    arrival: Arrival,
    *,
    target: UserRecord,
    insist: Callable[[], object],
    then: Callable[[UserRecord], Result],
    starts_session: bool,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Result:
    """Give `target` the identity, and do `then` with them, at once or not at all.

    `insist` is called first thing in the transaction, with the user's row locked; it raises when what allows the
    linking has ended since. Somebody without an address gets the identity's; a visitor is one no more once it is
    proved. Raises IdentityAlreadyLinked, IdentityOfAnotherUser, LinkedEmailExists, what refuses a mail, UserNotFound,
    UserBanned, and LinkedEmailNotVerified once the identity is stored. Opens the transaction itself.
    """
    wanted = arrival.said.get("email", "")
    mailed = False
    for is_last in (False, True):
        _refuse_linked(arrival, target)
        brings_email = not target.email and bool(wanted)
        is_proved = bool(arrival.said["email_verified"])
        if brings_email and _taken([wanted], but=target.id):
            raise errors.LinkedEmailExists
        if brings_email and not is_proved and not mailed:
            account_claiming.admit_confirmation(wanted)
            mailed = True
        try:
            with transaction.atomic(durable=True):
                _lock(target, at=at)
                insist()
                linked = _link(
                    arrival, target, email=wanted if brings_email else "", starts_session=starts_session,
                    caller=caller, at=at,
                )  # fmt: skip
                if not brings_email or is_proved:
                    return then(linked)
                account_claiming.send_confirmation(linked, redirect_to=redirect_to, caller=caller, at=at)
        except (IntegrityError, account_claiming.Overtaken):
            row = queries.by_id(target.id)
            if row is None:
                raise errors.UserNotFound from None
            if is_last:
                raise errors.IdentityNotCreated from None
            target = records.read(row)
            continue
        raise errors.LinkedEmailNotVerified(arrival.provider)
    raise AssertionError  # the second round returns or raises


def unlink(signed_in: SignedInUser, user: UserRecord, *, identity_id: UUID, caller: Caller, at: datetime) -> None:
    """Take an identity from a user who has another; the account's address is then that of one that is left.

    Raises SingleIdentity, IdentityNotFound, NoFreeEmail.
    """
    with transaction.atomic(durable=True):
        lifecycle.lock_signed_in_user(signed_in)
        row = queries.by_id(user.id)
        user = records.read(row) if row else user
        if len(user.identities) < 2:
            raise errors.SingleIdentity
        gone = next((each for each in user.identities if each.id == str(identity_id)), None)
        if gone is None:
            raise errors.IdentityNotFound
        remaining = [each for each in user.identities if each is not gone]
        about = {"identity_id": gone.id, "provider": gone.provider, "provider_id": gone.provider_id}
        audit.record(Action.IDENTITY_UNLINKED, actor=user, caller=caller, at=at, traits=about)
        Identity.objects.filter(id=identity_id, user_id=user.id).delete()
        if gone.provider == "phone":
            User.objects.filter(id=user.id).update(phone=None, phone_confirmed_at=None)
        else:
            _promote(user, remaining)
        account_claiming.know(user.id, at=at)
        if user.email:
            messaging.send(notification_emails.identity_unlinked(user, provider=gone.provider))


def _refuse_linked(arrival: Arrival, target: UserRecord) -> None:
    row = queries.by_identity(provider=arrival.provider, provider_id=arrival.subject)
    if row is not None:
        raise errors.IdentityAlreadyLinked if row[0] == target.id else errors.IdentityOfAnotherUser


def _lock(target: UserRecord, *, at: datetime) -> None:
    """Lock an account as long as it has the address that the decision was made on. Raises Overtaken, UserBanned."""
    row = queries.locked(target.id)
    now = records.read(row) if row else None
    if now is None or now.email != target.email:
        raise account_claiming.Overtaken
    if now.is_banned(at):
        raise errors.UserBanned


def _link(
    arrival: Arrival,
    target: UserRecord,
    *,
    email: str,
    starts_session: bool,
    caller: Caller,
    at: datetime,
) -> UserRecord:
    """`email`: the address that the account is to have from now on, `""` to leave it as it is."""
    identity = account_creation.add_identity(
        target.id, provider=arrival.provider, subject=arrival.subject, said=arrival.said, at=at
    )
    audit.record(
        Action.IDENTITY_LINKED, actor=target, caller=caller, at=at, traits=account_claiming.traits(identity.id, arrival)
    )
    is_proved = not email or bool(arrival.said["email_verified"])
    columns: dict[str, Any] = {}
    if email:
        one_time_tokens.delete_all(target.id)
        metadata = json_columns.merged("raw_user_meta_data", {"email_verified": is_proved})
        columns = {**changes.nothing_pending(), "email": email, "raw_user_meta_data": metadata}
        columns |= {"email_confirmed_at": at} if is_proved else {"email_confirmed_at": None, "confirmation_sent_at": at}
    if target.is_anonymous and is_proved:
        columns["is_anonymous"] = False
    if columns:
        User.objects.filter(id=target.id).update(**columns)
    user = account_claiming.know(target.id, signed_in_at=at if starts_session and is_proved else None, at=at)
    if user.email and is_proved:
        messaging.send(notification_emails.identity_linked(user, provider=arrival.provider))
    return user


def _promote(user: UserRecord, remaining: list[IdentityRecord]) -> None:
    taken = _taken([each.email for each in remaining if each.email], but=user.id)
    try:
        promoted = primary_email.choose(user.email, remaining, taken=taken)
    except primary_email.NothingFree:
        raise errors.NoFreeEmail from None
    if promoted is None:
        return
    columns: dict[str, Any] = {**changes.nothing_pending(), "email": promoted.email or None}
    if not promoted.email or not (promoted.verified or conf.current().mailer.autoconfirm):
        columns["email_confirmed_at"] = None
        columns["raw_user_meta_data"] = json_columns.merged("raw_user_meta_data", {"email_verified": False})
    try:
        User.objects.filter(id=user.id).update(**columns)
    except IntegrityError:
        raise errors.NoFreeEmail from None  # somebody was faster
    one_time_tokens.delete_all(user.id)


def _taken(emails: list[str], *, but: UUID) -> set[str]:
    """Those that are the address of somebody else's account, in whatever audience."""
    found = queries.owners(emails) if emails else []
    return {email for user_id, provider, email, _, _ in found if provider is None and user_id != but}

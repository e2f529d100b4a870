"""Account claiming: decides which account the first proof of an email or phone leads to, and merges metadata.

An email or phone of an account is only a claim until a message or a provider proves it. A person controls an account
after the confirmation of one of its identifiers, or after a sign-in (`UserRecord.is_controlled`). The rule is:

1. The first proof takes over the account with the claim if no person controls that account. Its credentials, sessions,
   other identities and other unconfirmed identifier are removed; the confirmed request itself keeps its own password
   or identity.
2. The first proof never leads into an account that a person controls. That account loses the claim, which becomes a
   pending change, and the owner of the email or phone gets a new account.

Therefore an account that a person controls never gets an unconfirmed address: linking an identity stores it as a
pending change. Its link confirms a change of that account only, never a sign-up or sign-in with the address. An
invitation is the exception: the administrator has named the account of the address.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q

from accounts.identities import queries
from accounts.models import Factor, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from accounts.passwords import hashing
from accounts.users import account_creation, updates, user_events
from accounts.users import queries as user_queries
from accounts.users.records import UserRecord
from authsvc import events
from authsvc.events import EventType
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.sessions import revocation

_OWN_PROVIDERS = ("email", "phone")


class AccountChanged(Exception):
    """The account is no longer the one on which a decision was made."""


def withdraw_claim(claimant: UserRecord, column: Literal["email", "phone"], *, at: datetime) -> None:
    """Apply `withdraw_own_claim` to the account of another person, whose change is an event of its own."""
    with user_events.changes_of(claimant, at=at):
        withdraw_own_claim(claimant, column, at=at)


def withdraw_own_claim(user: UserRecord, column: Literal["email", "phone"], *, at: datetime) -> None:
    """Take an unconfirmed email or phone from an account that a person controls, in favour of its owner.

    It becomes a pending change of the account, and secrets that were sent to it are deleted. Changes nothing when it
    has been confirmed meanwhile. Must run inside the transaction that gives it to another account.
    """
    value = user.email if column == "email" else user.phone
    pending = user.email_change if column == "email" else user.phone_change
    columns: dict[str, Any] = {column: None, f"{column}_change": pending or value, "updated_at": at}
    with transaction.atomic(savepoint=False):
        unconfirmed = User.objects.filter(id=user.id, **{column: value, f"{column}_confirmed_at": None})
        if not unconfirmed.update(**columns):
            return
        Identity.objects.filter(user_id=user.id, provider=column, provider_id=str(user.id)).delete()
        one_time_tokens.delete_sent_to(value, user_id=user.id)
        merge_user_metadata(user.id, at=at)


def withdraw_other_claim(user: UserRecord, *, proven: Literal["email", "phone"], at: datetime) -> None:
    """Apply `withdraw_own_claim` to the other identifier of an account whose email or phone has just been proven."""
    if proven == "phone" and user.email and user.email_confirmed_at is None and not user.has_pending_invitation:
        withdraw_own_claim(user, "email", at=at)
    elif proven == "email" and user.phone and user.phone_confirmed_at is None:
        withdraw_own_claim(user, "phone", at=at)


def claim_unverified_account(user: UserRecord, *, keep_identity: UUID, at: datetime) -> None:
    """Give an account with an unverified address to the owner of `keep_identity`.

    Deletes the password, the phone, all credentials and sessions, and every other identity, because another person
    may have created them; and the metadata, except what the administrator has stored with an invitation. Must run
    inside a transaction.
    """
    user_id = user.id
    columns: dict[str, Any] = {"password": None, "phone": None, "phone_confirmed_at": None}
    with transaction.atomic(savepoint=False):
        if user.has_pending_invitation:
            user_queries.remove_sign_up_data(user_id)
        else:
            columns["raw_user_meta_data"] = {}
        User.objects.filter(id=user_id).update(**columns, **updates.cleared_pending_changes(keeps_confirmation=True))
        _delete_identities(user_id, Q(id=keep_identity), at=at)
        _delete_credentials(user, at=at)
        one_time_tokens.delete_all(user_id)


def dispute_unverified_account(user: UserRecord, *, at: datetime) -> UserRecord:
    """Leave an unconfirmed account to the person who confirms its address, because several requests claim it.

    Until then it has no password and no data of sign-ups. The confirmation removes its external identities, and that
    person chooses the password. Must run inside a transaction.
    """
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user.id).update(password=hashing.NO_PASSWORD, updated_at=at)
        user_queries.remove_sign_up_data(user.id)
    return user_queries.reread(user)


def remove_unverified_identities(
    user: UserRecord, *, identity_data: Mapping[str, Any] | None = None, at: datetime
) -> None:
    """Remove external identities, and all credentials, from an account whose address is verified only now.

    Another person may have signed in with these identities before. The account gets an email identity, with
    `identity_data` if there is one. Must run inside the transaction that changed the user's row.
    """
    if all(provider in _OWN_PROVIDERS for provider in user.providers):
        return
    with transaction.atomic(savepoint=False):
        _delete_identities(user.id, Q(provider__in=_OWN_PROVIDERS), at=at)
        if user.email and "email" not in user.providers:
            data = identity_data or account_creation.own_identity_data(user_id=user.id, email=user.email, data={})
            account_creation.add_identity(user.id, provider="email", subject=str(user.id), identity_data=data, at=at)
        _delete_credentials(user, at=at)
        merge_user_metadata(user.id, at=at)


def merge_user_metadata(
    user_id: UUID,
    *,
    identity_data: Mapping[str, Any] | None = None,
    keeps_providers: bool = False,
    signed_in_at: datetime | None = None,
    at: datetime,
) -> UserRecord:
    """Write a user's providers into `app_metadata` and merge `identity_data` into `user_metadata`. One statement.

    A null in `identity_data` deletes the key. Must run inside a transaction that has locked the user's row, or with
    `keeps_providers`. Raises AccountChanged when the user no longer exists.
    """
    data = identity_data or {}
    values = {key: value for key, value in data.items() if value is not None}
    with transaction.atomic(savepoint=False):
        user = queries.merge_user_metadata(
            user_id=user_id,
            identity_data=orjson.dumps(values).decode(),
            deleted_keys=[key for key in data if key not in values],
            keeps_providers=keeps_providers,
            signed_in_at=signed_in_at,
            at=at,
        )
    if user is None:
        raise AccountChanged
    return user


def _delete_identities(user_id: UUID, kept: Q, *, at: datetime) -> None:
    deleted = Identity.objects.filter(user_id=user_id).exclude(kept)
    rows = list(deleted) if events.is_recorded(EventType.IDENTITY_UNLINKED) else []
    deleted.delete()
    for identity in rows:
        user_events.record_identity(EventType.IDENTITY_UNLINKED, user_id, identity, at=at)


def _delete_credentials(user: UserRecord, *, at: datetime) -> None:
    user_id = user.id
    passkeys = Passkey.objects.filter(user_id=user_id).values_list("id", "friendly_name")
    deleted_passkeys = list(passkeys) if events.is_recorded(EventType.PASSKEY_DELETED) else []
    for model in (Factor, Passkey, PasskeyChallenge, RecoveryCode):
        model._default_manager.filter(user_id=user_id).delete()
    for factor in user.factors:
        user_events.record_factor_removal(user_id, factor, at=at)
    for passkey_id, name in deleted_passkeys:
        user_events.record_passkey(
            EventType.PASSKEY_DELETED, user_id, passkey_id=str(passkey_id), friendly_name=name or "", at=at
        )
    revocation.revoke_all_sessions(user_id, reason="admin")
    flow_states.delete_user_flows(user_id)

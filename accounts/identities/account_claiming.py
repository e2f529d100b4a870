"""Changes of an account when an identity proves its address: claiming it, and merging the identity's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from accounts.identities import queries
from accounts.models import Factor, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from accounts.users import account_creation, updates
from accounts.users.records import UserRecord
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.sessions import revocation

_OWN_PROVIDERS = ("email", "phone")


class AccountChanged(Exception):
    """The account is no longer the one on which a decision was made."""


def claim_unverified_account(user_id: UUID, *, keep_identity: UUID) -> None:
    """Give an account with an unverified address to the owner of `keep_identity`.

    Deletes the password, the phone, all credentials and sessions, and every other identity, because another person
    may have created them. Must run inside a transaction.
    """
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user_id).update(
            password=None,
            phone=None,
            phone_confirmed_at=None,
            raw_user_meta_data={},
            **updates.cleared_pending_changes(),
        )
        Identity.objects.filter(user_id=user_id).exclude(id=keep_identity).delete()
        _delete_credentials(user_id)
        one_time_tokens.delete_all(user_id)


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
        Identity.objects.filter(user_id=user.id).exclude(provider__in=_OWN_PROVIDERS).delete()
        if user.email and "email" not in user.providers:
            data = identity_data or account_creation.own_identity_data(user_id=user.id, email=user.email, data={})
            account_creation.add_identity(user.id, provider="email", subject=str(user.id), identity_data=data, at=at)
        _delete_credentials(user.id)
        merge_user_metadata(user.id, at=at)


def merge_user_metadata(
    user_id: UUID,
    *,
    identity_data: Mapping[str, Any] | None = None,
    signed_in_at: datetime | None = None,
    at: datetime,
) -> UserRecord:
    """Write a user's providers into `app_metadata` and merge `identity_data` into `user_metadata`. One statement.

    A null in `identity_data` deletes the key. Must run inside a transaction. Raises AccountChanged when the user no
    longer exists.
    """
    data = identity_data or {}
    values = {key: value for key, value in data.items() if value is not None}
    with transaction.atomic(savepoint=False):
        user = queries.merge_user_metadata(
            user_id=user_id,
            identity_data=orjson.dumps(values).decode(),
            deleted_keys=[key for key in data if key not in values],
            signed_in_at=signed_in_at,
            at=at,
        )
    if user is None:
        raise AccountChanged
    return user


def _delete_credentials(user_id: UUID) -> None:
    for model in (Factor, Passkey, PasskeyChallenge, RecoveryCode):
        model._default_manager.filter(user_id=user_id).delete()
    revocation.revoke_all_sessions(user_id)
    flow_states.delete_user_flows(user_id)

"""Deletion of accounts: the whole account, or its personal data alone (soft deletion)."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts import errors
from accounts.models import Factor, Identity, OperatorNote, Passkey, PasskeyChallenge, RecoveryCode, User
from accounts.users import queries, user_events
from accounts.users.records import UserRecord
from authsvc import audit, personal_data
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.personal_data import DataSubject
from authsvc.security import crypto
from tokens.one_time import one_time_tokens
from tokens.sessions import revocation, session_events

_MAX_PHONE_LENGTH = 15


def delete(user_id: UUID, *, soft: bool, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Delete an account, or with `soft` keep its row without personal data. Both end all sessions.

    The audit trail keeps the email address and phone. Raises UserNotFound.
    """
    with transaction.atomic(durable=True):
        delete_locked(user_id, soft=soft, actor=actor, caller=caller, at=at)


def delete_locked(
    user_id: UUID, *, soft: bool, actor: Administrator | UserRecord, caller: Caller, at: datetime
) -> None:
    """As `delete`, also for a user who deletes the own account. Must run inside a transaction."""
    # Blocks sign-ins and changes until the end of the transaction.
    user = queries.get(user_id) if User.objects.lock(user_id) else None
    if user is None:
        raise errors.UserNotFound
    traits = {**user.audit_traits, "is_soft": soft}
    audit.record(audit.Action.DELETED, actor=actor, caller=caller, at=at, traits=traits)
    if user.deleted_at is None:
        user_events.record_deletion(user_id, email=user.email, phone=user.phone, is_soft=soft, at=at)
    if not soft:
        if session_events.is_end_recorded():
            revocation.revoke_all_sessions(user_id, reason="user_deleted")
        # The database deletes the related rows by cascade.
        User.objects.filter(id=user_id).delete_rows()
    else:
        _erase_account(user, at=at)
    data_subject = DataSubject(id=user_id, addresses=frozenset({user.email, user.phone}) - {""})
    for source in personal_data.sources:
        source.erase(data_subject)


def _erase_account(user: UserRecord, *, at: datetime) -> None:
    """Mark the row as deleted, replace identifiers by hashes, erase the other personal data and revoke all access.

    A second deletion keeps the hashes and repeats the rest, because earlier versions could add data to a deleted row.
    """
    erased: dict[str, Any] = {"password": None, "raw_app_meta_data": {}, "raw_user_meta_data": {}}
    if user.deleted_at is None:
        User.objects.filter(id=user.id).update(
            email=_hash(user, user.email),
            phone=_hash(user, user.phone)[:_MAX_PHONE_LENGTH],
            email_change=_hash(user, user.email_change),
            phone_change=_hash(user, user.phone_change)[:_MAX_PHONE_LENGTH],
            deleted_at=at,
            updated_at=at,
            **erased,
        )
    else:
        User.objects.filter(id=user.id).erase_deleted(**erased)
    Identity.objects.bulk_update(
        [
            Identity(
                id=identity.id,
                provider_id=_hash(user, f"{identity.provider}:{identity.provider_id}"),
                identity_data={},
                updated_at=at,
            )
            for identity in user.identities
            if user.deleted_at is None or identity.data_json != "{}"
        ],
        ["provider_id", "identity_data", "updated_at"],
    )
    delete_factors(user.id)
    OperatorNote.objects.filter(user_id=user.id).delete_rows()
    one_time_tokens.delete_all(user.id)
    revocation.revoke_all_sessions(user.id, reason="user_deleted")


def _hash(user: UserRecord, text: str) -> str:
    return crypto.base64url_encode(hashlib.sha256(f"{user.id}{text}".encode()).digest())


def delete_factors(user_id: UUID) -> None:
    """Delete the second factors and passkeys of a user. Must run inside a transaction."""
    for model in (Factor, RecoveryCode, Passkey, PasskeyChallenge):
        model._default_manager.filter(user_id=user_id).delete_rows()

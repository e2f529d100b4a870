"""Taking an account away: the whole of it, or all that tells whose it was."""

from __future__ import annotations

import hashlib
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts import errors
from accounts.models import Factor, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import audit, personal_data
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.personal_data import DataSubject
from authsvc.security import crypto
from tokens.one_time import one_time_tokens
from tokens.sessions import lifecycle

_LONGEST_NUMBER = 15


def delete(user_id: UUID, *, soft: bool, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Delete an account, or with `soft` leave its row without anything of the person in it; both end every sign-in.

    The audit trail stays, and says what the address and number were. Raises UserNotFound.
    """
    with transaction.atomic(durable=True):
        # Until the end, nobody signs in or changes what is being taken away.
        user = queries.get(user_id) if User.objects.lock(user_id) else None
        if user is None:
            raise errors.UserNotFound
        traits = {"user_id": str(user.id), "user_email": user.email, "user_phone": user.phone}
        audit.record(audit.Action.DELETED, actor=actor, caller=caller, at=at, traits=traits)
        if not soft:
            # What belongs to the row goes with it, by the database's own cascade.
            User.objects.filter(id=user_id).delete_rows()
        elif user.deleted_at is None:
            _empty(user, at=at)
        else:
            return
        person = DataSubject(id=user_id, addresses=frozenset({user.email, user.phone}) - {""})
        for source in personal_data.sources():
            source.erase(person)


def _empty(user: UserRecord, *, at: datetime) -> None:
    def obscured(text: str) -> str:
        return crypto.base64url_encode(hashlib.sha256(f"{user.id}{text}".encode()).digest())

    User.objects.filter(id=user.id).update(
        email=obscured(user.email),
        phone=obscured(user.phone)[:_LONGEST_NUMBER],
        email_change=obscured(user.email_change),
        phone_change=obscured(user.phone_change)[:_LONGEST_NUMBER],
        password=None,
        raw_app_meta_data={},
        raw_user_meta_data={},
        deleted_at=at,
        updated_at=at,
    )
    Identity.objects.bulk_update(
        [
            Identity(
                id=identity.id,
                provider_id=obscured(f"{identity.provider}:{identity.provider_id}"),
                identity_data={},
                updated_at=at,
            )
            for identity in user.identities
        ],
        ["provider_id", "identity_data", "updated_at"],
    )
    drop_factors(user.id)
    one_time_tokens.delete_all(user.id)
    lifecycle.revoke_all_sessions(user.id)


def drop_factors(user_id: UUID) -> None:
    """Delete the second factors and passkeys of a user. Joins the caller's transaction."""
    for model in (Factor, RecoveryCode, Passkey, PasskeyChallenge):
        model._default_manager.filter(user_id=user_id).delete_rows()

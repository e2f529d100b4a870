"""Notes of operators about users, and the reasons of bans."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts import errors as account_errors
from accounts.administration import user_administration
from accounts.models import OperatorNote, User
from accounts.users import queries
from authsvc import audit
from authsvc.audit import Administrator
from authsvc.caller import Caller

MAX_LENGTH = 5_000


def add(user_id: UUID, text: str, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Store a note. The audit trail records that there is one, without its text. Raises UserNotFound."""
    user = queries.require(user_id)
    with transaction.atomic(durable=True):
        if not _store(user_id, text, actor=actor, at=at):
            raise account_errors.UserNotFound
        audit.record(audit.Action.NOTE_ADDED, actor=actor, caller=caller, at=at, traits=user.audit_traits)


def ban(user_id: UUID, *, ban_duration: str, period: str, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Ban a user and keep the reason of `actor` as a note; `period` describes the duration. Raises as `set_ban`."""
    user_administration.set_ban(user_id, ban_duration=ban_duration, actor=actor, caller=caller, at=at)
    with transaction.atomic(durable=True):
        _store(user_id, f"Banned ({period}): {actor.reason}", actor=actor, at=at)


def _store(user_id: UUID, text: str, *, actor: Administrator, at: datetime) -> bool:
    """Store a note unless the account is deleted. Joins the caller's transaction."""
    # Waits for a deletion, which must not leave a note behind.
    if not User.objects.filter(deleted_at=None).lock(user_id):
        return False
    OperatorNote.objects.create(
        user_id=user_id, author_id=actor.user_id, author=actor.address or actor.role, text=text, created_at=at
    )
    return True

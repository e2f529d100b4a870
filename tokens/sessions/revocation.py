"""Revocation of sessions by operators, for a lost device or a compromised account."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from authsvc import audit
from authsvc.audit import Administrator
from authsvc.caller import Caller
from tokens import errors
from tokens.models import Session
from tokens.sessions import lifecycle


def end_session(session_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Revokes a session and its refresh token. Raises SessionOver when it has already ended."""
    with transaction.atomic(durable=True):
        owner = Session.objects.filter(id=session_id).values_list("user_id", flat=True).first()
        if owner is None or not lifecycle.lock_user(owner):
            raise errors.SessionOver
        if not Session.objects.select_for_update().filter(id=session_id).values_list("pk").first():
            raise errors.SessionOver
        traits = {"user_id": str(owner), "session_id": str(session_id)}
        audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        lifecycle.revoke_session(session_id)


def end_all_sessions(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> int:
    """Revokes all sessions of a user; returns their number."""
    with transaction.atomic(durable=True):
        lifecycle.lock_user(user_id)
        sessions = list(Session.objects.select_for_update().filter(user_id=user_id).values_list("id"))
        traits = {"user_id": str(user_id), "sessions": len(sessions)}
        audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        lifecycle.revoke_all_sessions(user_id)
    return len(sessions)

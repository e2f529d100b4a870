"""Ending the sign-ins of others: what operators do about a lost device or an account in the wrong hands."""

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


def end(session_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """End one session; its refresh token dies at once. Raises SessionOver when it has ended already."""
    with transaction.atomic(durable=True):
        owner = Session.objects.filter(id=session_id).values_list("user_id", flat=True).first()
        if owner is None or not lifecycle.hold_user(owner):
            raise errors.SessionOver
        if not Session.objects.select_for_update().filter(id=session_id).values_list("pk").first():
            raise errors.SessionOver
        traits = {"user_id": str(owner), "session_id": str(session_id)}
        audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        lifecycle.revoke(session_id)


def end_all(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> int:
    """End every session of a user; how many there were."""
    with transaction.atomic(durable=True):
        lifecycle.hold_user(user_id)
        ending = list(Session.objects.select_for_update().filter(user_id=user_id).values_list("id"))
        traits = {"user_id": str(user_id), "sessions": len(ending)}
        audit.record(audit.Action.LOGOUT, actor=actor, caller=caller, at=at, traits=traits)
        lifecycle.revoke_all(user_id)
    return len(ending)

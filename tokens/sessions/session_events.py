"""Lifecycle events of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from authsvc import events
from authsvc.api.renderers import rfc3339
from authsvc.events import EventType
from tokens.sessions import users
from tokens.sessions.users import SessionRecord, TokenUser

_MAX_IDS = 100


def record_start(user: TokenUser, session: SessionRecord, *, method: str, provider: str, at: datetime) -> None:
    """Record the start of a session. Joins the caller's transaction.

    `provider` is that of the identity, empty for other methods.
    """
    events.record(
        EventType.SESSION_STARTED,
        user_id=user.id,
        user=lambda: users.user_source.user_json(user),
        data=lambda: {"session": _describe(session, method=method, provider=provider)},
        at=at,
    )


def record_upgrade(
    user: TokenUser, session: SessionRecord, *, method: str, factor_id: UUID | None, at: datetime
) -> None:
    """Record that a session has been raised to aal2. Joins the caller's transaction."""
    events.record(
        EventType.SESSION_UPGRADED,
        user_id=user.id,
        user=lambda: users.user_source.user_json(user),
        data=lambda: {
            "session": _describe(session, method=method),
            "factor_id": None if factor_id is None else str(factor_id),
        },
        at=at,
    )


def record_end(user_id: UUID, session_ids: Sequence[UUID], *, reason: str) -> None:
    """Record one event for all sessions that a request has ended. Joins the caller's transaction."""
    if not session_ids:
        return
    data: dict[str, Any] = {"session_ids": [str(session_id) for session_id in session_ids[:_MAX_IDS]], "reason": reason}
    if len(session_ids) > _MAX_IDS:
        data["truncated"] = True
    events.record(
        EventType.SESSION_REVOKED,
        user_id=user_id,
        user=lambda: _read_user(user_id),
        data=data,
        at=timezone.now(),
    )


def is_end_recorded() -> bool:
    """True if the ids of ended sessions are needed. Costs no statement."""
    return events.is_recorded(EventType.SESSION_REVOKED)


def _read_user(user_id: UUID) -> dict[str, Any]:
    user = users.user_source.find_user(user_id)
    return users.user_source.user_json(user) if user else {"id": str(user_id)}


def _describe(session: SessionRecord, *, method: str, provider: str = "") -> dict[str, Any]:
    members: dict[str, Any] = {"id": str(session.id), "aal": session.aal, "method": method}
    if provider:
        members["provider"] = provider
    if session.oauth_client_id is not None:
        members["oauth_client_id"] = str(session.oauth_client_id)
    if session.not_after is not None:
        members["not_after"] = rfc3339(session.not_after)
    members["created_at"] = rfc3339(session.created_at)
    return members

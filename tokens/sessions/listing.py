"""Lists the sessions of a user that are valid now."""

from __future__ import annotations

from datetime import datetime

from tokens.models import Session
from tokens.sessions import session_limits
from tokens.sessions.users import TokenUser

MAX_SESSIONS = 100
"""The newest sessions that a list contains."""


def list_sessions(user: TokenUser, *, at: datetime) -> list[Session]:
    """The user's own sessions within their limits, most recently used first, with their methods. Two statements.

    Sessions in which an operator impersonates the user are left out.
    """
    rows = Session.objects.filter(user_id=user.id, impersonator_id=None).defer("refresh_token_hmac_key")
    newest = rows.prefetch_related("amr_claims").order_by("-created_at", "-id")[:MAX_SESSIONS]
    valid = [row for row in newest if session_limits.is_within_limits(row, user=user, at=at)]
    return sorted(valid, key=lambda row: session_limits.last_used_at(session_limits.record_of(row)), reverse=True)

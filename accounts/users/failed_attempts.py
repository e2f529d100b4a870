"""Wrong passwords and codes of an account, counted over all addresses, codes and messages (NIST SP 800-63B §3.2.2).

At the limit the account accepts a correct password or code only from networks where its owner has signed in before.
All others get the ordinary error until a link in an email is opened, or an administrator resets the count. So the
guesses from unknown networks are limited, and cannot lock the owner out.

Only failures write. Each account has one row. Identifiers without an account share a fixed number of placeholder rows,
so that a failure takes equally long for them. The networks are read from sessions and audit entries of sign-ins, which
exist anyway: a list of networks would need a write at each sign-in and would store the user's movements once more.
Without audit entries in the database, only networks of sessions that have not ended are known.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from accounts.models import FailedAttempts
from authsvc import conf
from authsvc.audit import search
from authsvc.caller import Caller, network_key
from authsvc.db.sql import fetch_row, fetch_rows, namespaced
from authsvc.observability import metrics

WINDOW = timedelta(hours=24)
"""Failures below the limit are forgotten this long after the first of them."""
_PLACEHOLDERS = 1024
_MAX_NETWORKS = 1_000
_BY_CLIENT = '{"traits": {"provider_type": "oauth_provider_authorization_code"}}'
"""Contained in the audit entries of sign-ins of OAuth clients."""


@cache
def count_column() -> str:
    """SQL for the number of failures of a user `u`, so that looking up the user needs no further statement."""
    return f"COALESCE((SELECT f.attempts FROM {namespaced('failed_attempts')} f WHERE f.user_id = u.id), 0)"  # noqa: S608  (own name)


def read_count(user_id: UUID) -> int:
    """The number of wrong passwords and codes of an account. One statement."""
    row = fetch_row(f"SELECT attempts FROM {namespaced('failed_attempts')} WHERE user_id = %s", (user_id,))  # noqa: S608  (own name)
    return row[0] if row else 0


def is_limited(count: int) -> bool:
    """True if an account with this number of failures is limited to known networks."""
    limit = _limit()
    return bool(limit) and count >= limit


def is_refused(
    user_id: UUID,
    *,
    caller: Caller,
    count: int | None = None,
    by_second_factor: bool = False,
    session_id: UUID | None = None,
) -> bool:
    """True if even a correct secret of this account must be answered as a wrong one.

    `count` is the number of failures if it is already read. `by_second_factor` requires a network where a second factor
    was verified, because a sign-in with the password alone may be an attacker's. `session_id` is the session of the
    request, whose address after a refresh proves nothing. One statement without `count`, one more at the limit.
    """
    if not _limit():
        return False
    if not is_limited(read_count(user_id) if count is None else count):
        return False
    network = network_key(caller.address)
    addresses = _known_addresses(user_id, by_second_factor=by_second_factor, session_id=session_id)
    is_known = bool(network) and any(network_key(address) == network for address in addresses)
    if not is_known:
        metrics.LIMIT_REFUSALS.labels("failed_attempts").inc()
    return not is_known


def record(user_ids: Iterable[UUID], *, identifier: str = "", at: datetime) -> None:
    """Count a wrong password or code on each of these accounts, or for an `identifier` without an account.

    Call it outside of transactions, so that a rollback keeps the count and no row stays locked. One statement each.
    """
    limit = _limit()
    if not limit:
        return
    for user_id in sorted(set(user_ids)) or [_placeholder(identifier)]:
        fetch_rows(_record(), {"user_id": user_id, "limit": limit, "at": at, "window_start": at - WINDOW})


@contextmanager
def recorded(user_id: UUID, *errors: type[Exception], at: datetime) -> Iterator[None]:
    """Count a failure if the body raises one of these errors. Call it outside of transactions."""
    try:
        yield
    except errors:
        record([user_id], at=at)
        raise


def below_limit() -> Q:
    """The condition on users who are not limited now, for the statement that records a sign-in."""
    limit = _limit()
    return ~Q(Exists(FailedAttempts.objects.filter(user_id=OuterRef("pk"), attempts__gte=limit))) if limit else Q()


def reset(user_id: UUID) -> bool:
    """Forget the failures of an account; False if there were none. One statement; joins the caller's transaction."""
    return bool(FailedAttempts.objects.filter(user_id=user_id).delete_rows())


def _limit() -> int:
    return conf.current().codes.max_failed_attempts


def _placeholder(identifier: str) -> UUID:
    """An id that no user has."""
    return UUID(int=1 + zlib.crc32(identifier.encode()) % _PLACEHOLDERS)


@cache
def _record() -> str:
    is_over = "f.attempts < %(limit)s AND f.started_at < %(window_start)s"
    return f"""
        INSERT INTO {namespaced("failed_attempts")} AS f (user_id, attempts, started_at, updated_at)
        VALUES (%(user_id)s, 1, %(at)s, %(at)s)
        ON CONFLICT (user_id) DO UPDATE SET
            attempts = CASE WHEN {is_over} THEN 1 ELSE LEAST(f.attempts + 1, %(limit)s) END,
            started_at = CASE WHEN {is_over} THEN %(at)s ELSE f.started_at END,
            updated_at = %(at)s
    """  # noqa: S608  (own table name)


def _known_addresses(user_id: UUID, *, by_second_factor: bool, session_id: UUID | None) -> list[str]:
    """The addresses of the newest sign-ins, or verifications of a second factor.

    Those of OAuth clients are left out: a client exchanges and refreshes its tokens from its own network.
    """
    sessions = f"""
        SELECT host(s.ip) FROM {namespaced("sessions")} s
        WHERE s.user_id = %(user_id)s AND s.ip IS NOT NULL AND s.impersonator_id IS NULL
            AND s.oauth_client_id IS NULL
            AND (s.refreshed_at IS NULL OR s.id <> %(session_id)s)
        {"AND s.aal > 'aal1'" if by_second_factor else ""}
        ORDER BY s.created_at DESC LIMIT {_MAX_NETWORKS}
    """  # noqa: S608  (own table name)
    # The owner and the kind are the keys of the index. A confirmation without a session is no sign-in.
    of_user = f"{search.OWNER_ID} = %(actor_id)s AND {search.KIND} = '{search.EntryKind.SIGN_IN}'"
    actions = "a.payload ->> 'action' IN ('login', 'user_signedup', 'verification_attempted', 'recovery_code_used')"
    proves = (
        "a.payload ->> 'action' IN ('verification_attempted', 'recovery_code_used')"
        if by_second_factor
        else "(a.payload ->> 'action' = 'login' OR a.payload ? 'session_id') AND NOT a.payload @> %(by_client)s::jsonb"
    )
    entries = f"""
        SELECT a.ip_address FROM {namespaced("audit_log_entries")} a
        WHERE {of_user} AND a.payload ->> 'actor_id' = %(actor_id)s AND {actions} AND {proves} AND a.ip_address <> ''
        ORDER BY a.created_at DESC LIMIT {_MAX_NETWORKS}
    """  # noqa: S608  (own table name)
    values = {
        "user_id": user_id,
        "actor_id": str(user_id),
        "session_id": session_id or UUID(int=0),
        "by_client": _BY_CLIENT,
    }
    return [address for (address,) in fetch_rows(f"({sessions}) UNION ({entries})", values)]

"""Assertions and queries for use after a request: error responses, the audit trail, table contents."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
from django.db import connection
from django.db.models import F

from authsvc.models import RateLimit
from tests.conftest import ApiResponse

Audit = tuple[str, dict[str, Any] | None]

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Headers of every response that is not a page."""

_COUNTERS = frozenset({"rate_limits", "failed_attempts", "django_migrations", "password_hash_kinds"})
_REMAINING = re.compile(r"after (\d+) seconds")
_NO_REFUSAL = "coalesce(payload ->> 'action', '') NOT IN ('sign_in_refused', 'user_change_refused')"


def assert_error(response: ApiResponse, status: int, error_code: str, text: str, **further: Any) -> None:
    """Assert that the response is this error in the default format, without further members.

    It may have a hint unless `further` has one. A remaining time in `text` is that of `with_elapsed_time`.
    """
    found = response.json()
    if "hint" not in further:
        found.pop("hint", None)
    text = with_elapsed_time(text, found=str(found.get("msg")))
    body = {"code": status, "error_code": error_code, "msg": text, **further}
    assert (response.status_code, found) == (status, body)
    assert response.headers["X-Sb-Error-Code"] == error_code


def with_elapsed_time(text: str, *, found: str) -> str:
    """`text` with the remaining time in `found` if it is up to 30 seconds shorter, because time passes."""
    expected, stated = _REMAINING.search(text), _REMAINING.search(found)
    if expected and stated and 0 <= int(expected[1]) - int(stated[1]) <= 30:
        return text.replace(expected[0], stated[0])
    return text


def replace_table(name: str) -> None:
    """Empty the table and those that refer to it, for tests that insert thousands of rows and roll them back.

    The rows then go to files that the rollback removes. Otherwise dead rows and the results of ANALYZE would remain.
    """
    with connection.cursor() as cursor:
        cursor.execute(f'TRUNCATE "{name}" CASCADE')


# Rows of one transaction are ordered by their command; positions are not enough, as space of dead rows is used again.
_INSERTION_ORDER = "CASE WHEN pg_current_xact_id_if_assigned() IS NULL THEN xmin::text::bigint END, cmin::text::bigint"


def audit_trail() -> list[Audit]:
    """Actions with their traits, in insertion order, without refusals."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT payload ->> 'action', payload -> 'traits' FROM audit_log_entries WHERE {_NO_REFUSAL}"
            f" ORDER BY {_INSERTION_ORDER}, ctid"
        )
        return [(action, traits and orjson.loads(traits)) for action, traits in cursor.fetchall()]


def audit_payloads(*, with_ids: bool = False) -> list[dict[str, Any]]:
    """Payloads as in `audit_trail` without user agents, and without ids of requests and sessions unless `with_ids`."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT payload FROM audit_log_entries WHERE {_NO_REFUSAL} ORDER BY {_INSERTION_ORDER}, ctid")
        payloads = [orjson.loads(payload) for (payload,) in cursor.fetchall()]
    dropped = {"user_agent", *(() if with_ids else ("request_id", "session_id"))}
    return [{name: value for name, value in payload.items() if name not in dropped} for payload in payloads]


# Placeholder jobs send no message; they exist only to equalize response times.
_REAL = {
    "audit_log_entries": f" WHERE {_NO_REFUSAL}",
    "procrastinate_jobs": " WHERE task_name <> 'mailer.discard'",
    "procrastinate_events": (
        " WHERE job_id IN (SELECT id FROM procrastinate_jobs WHERE task_name <> 'mailer.discard')"
    ),
}


def table_contents() -> dict[str, tuple[int, str]]:
    """Table → row count and digest of the contents, without counters and entries of refused sign-ins."""
    with connection.cursor() as cursor:
        tables = sorted(set(connection.introspection.table_names(cursor)) - _COUNTERS)
        cursor.execute(
            " UNION ALL ".join(
                f"SELECT '{table}', count(*), md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), ''))"
                f' FROM "{table}" t{_REAL.get(table, "")}'
                for table in tables
            )
        )
        return {table: (count, digest) for table, count, digest in cursor.fetchall()}


def backdate_rate_limits(by: timedelta) -> None:
    """Move all rate limits and minimum intervals back by `by`."""
    RateLimit.objects.update(created_at=F("created_at") - by, updated_at=F("updated_at") - by)


def redirect_fragment(response: ApiResponse) -> dict[str, str]:
    """The fragment parameters of the redirect target; asserts that they are sorted by key."""
    pairs = parse_qsl(urlsplit(response.headers["Location"]).fragment, keep_blank_values=True, strict_parsing=True)
    assert pairs == sorted(pairs)
    return dict(pairs)


def redirect_query(response: ApiResponse) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(response.headers["Location"]).query, keep_blank_values=True))

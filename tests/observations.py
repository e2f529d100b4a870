"""What tests look at after a request: the refusal, the audit trail, what the tables hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
from django.db import connection
from django.db.models import F

from authsvc.models import RateLimit
from tests.conftest import Answer

Audit = tuple[str, dict[str, Any] | None]

_COUNTERS = frozenset({"rate_limits", "django_migrations"})


def refused(answer: Answer, status: int, error_code: str, text: str, **further: Any) -> None:
    """Assert that this is the refusal, in the initial form and with nothing else in it."""
    said = {"code": status, "error_code": error_code, "msg": text, **further}
    assert (answer.status_code, answer.json()) == (status, said)
    assert answer.headers["X-Sb-Error-Code"] == error_code


def audit_trail() -> list[Audit]:
    """Actions with their traits, in the order they were written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload ->> 'action', payload -> 'traits' FROM audit_log_entries ORDER BY ctid")
        return [(action, traits and orjson.loads(traits)) for action, traits in cursor.fetchall()]


def audit_payloads() -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload FROM audit_log_entries ORDER BY ctid")
        return [orjson.loads(payload) for (payload,) in cursor.fetchall()]


# Jobs that stand for no message are there for the time they take.
_REAL = {
    "procrastinate_jobs": " WHERE task_name <> 'mailer.discard'",
    "procrastinate_events": (
        " WHERE job_id IN (SELECT id FROM procrastinate_jobs WHERE task_name <> 'mailer.discard')"
    ),
}


def contents() -> dict[str, tuple[int, str]]:
    """Table → number of rows and a digest of all they hold, for every table but the counters of limits."""
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


def let_limits_pass(by: timedelta) -> None:
    """As if `by` had passed for everything that is limited in frequency or number."""
    RateLimit.objects.update(created_at=F("created_at") - by, updated_at=F("updated_at") - by)


def fragment_of(answer: Answer) -> dict[str, str]:
    """The fragment of a redirect's target, which is in key order."""
    pairs = parse_qsl(urlsplit(answer.headers["Location"]).fragment, keep_blank_values=True, strict_parsing=True)
    assert pairs == sorted(pairs)
    return dict(pairs)


def query_of(answer: Answer) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(answer.headers["Location"]).query, keep_blank_values=True))

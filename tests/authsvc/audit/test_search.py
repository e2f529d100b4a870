"""Searches of the audit trail."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from authsvc.audit import Action, search
from authsvc.models import AuditLogEntry
from tests.accounts.administration.admin_requests import expect_success
from tests.conftest import Api
from tests.factories import make_session, make_user

pytestmark = pytest.mark.django_db

TIMES = ("infinity", "-infinity", "0044-03-15 BC", "1999-01-01Z", "2026-01-01Z", "2026-01-01T00:00:00.000001Z")
"""Times in imported entries."""


def test_entries_about_user_are_read_by_index(api: Api) -> None:
    user, other = make_user(), make_user()
    api.post("/logout", bearer=make_session(user).access_token)
    expect_success(api, "PUT", f"/admin/users/{other.id}", {})
    expect_success(api, "PUT", f"/admin/users/{user.id}", {})
    expect_success(api, "DELETE", f"/admin/users/{user.id}")
    entries = search.entries_about_user(user.id, limit=3)
    assert [entry.payload_json.count("user_deleted") for entry in entries] == [1, 0, 0]
    assert "logout" in entries[-1].payload_json
    assert search.entries_about_user(user.id, limit=2) == entries[:2]


def plan_of(read: Callable[[], object]) -> str:
    """The plan of the one statement that `read` runs, on a table that is large enough for an index."""
    with CaptureQueriesContext(connection) as statements:
        read()
    [statement] = statements
    kinds = [str(kind) for kind in search.EntryKind]
    values: list[Any] = [kinds, str(uuid4()), timezone.now(), uuid4()][: statement["sql"].count("%s")]
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {statement['sql']}", values)
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.parametrize("before", [None, (timezone.now(), uuid4())])
def test_each_kind_of_entry_is_read_by_index_in_order(before: Any) -> None:
    plan = plan_of(lambda: search.entries_about_user(uuid4(), limit=9, before=before))
    _, _, of_kind = plan.partition("Nested Loop")
    assert of_kind.count("Index Scan using ") == of_kind.count(" on audit_log_entries_") > 1
    assert "kind.kind" in of_kind  # a condition of the index
    assert "Filter" not in of_kind
    assert "Sort  (" not in of_kind
    assert ("ROW(created_at, id) <" in of_kind) == bool(before)


def test_every_entry_has_one_kind() -> None:
    user_id, actions = uuid4(), [*Action, "of_tomorrow"]
    AuditLogEntry.objects.bulk_create(
        AuditLogEntry(payload={"action": action, "actor_id": str(user_id)}, created_at=timezone.now())
        for action in actions
    )
    kind_of: dict[str, search.EntryKind] = {}
    for kind in search.EntryKind:
        for entry in search.entries_about_user(user_id, limit=len(actions), kinds=[kind]):
            action = orjson.loads(entry.payload_json)["action"]
            assert action not in kind_of
            kind_of[action] = kind
    assert set(kind_of) == set(actions)
    refusals = {action for action, kind in kind_of.items() if kind is search.EntryKind.REFUSAL}
    assert refusals == {Action.SIGN_IN_REFUSED, Action.CHANGE_REFUSED}


def test_entries_follow_another_one_whatever_their_times_are() -> None:
    user_id = str(uuid4())
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO audit_log_entries (id, payload, created_at)"
            " VALUES (gen_random_uuid(), jsonb_build_object('actor_id', %s::text, 'action', %s::text), %s)",
            [(user_id, action, at) for action in ("login", "user_modified") for at in TIMES],
        )
    read: list[search.Entry] = []
    before = (datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
    for _ in range(2 * len(TIMES)):
        page = search.entries_about_user(UUID(user_id), limit=3, before=before)
        if not page:
            break
        read += page
        before = (page[-1].created_at, page[-1].id)
    assert [entry.created_at.year for entry in read] == [2026, 2026, 2026, 2026, 1999, 1999]
    assert len({entry.id for entry in read}) == len(read)

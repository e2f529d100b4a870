"""GET /admin/audit: entries, search and pages."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from authsvc.models import AuditLogEntry
from tests.accounts.administration.admin_requests import ask, expect_success
from tests.conftest import Api
from tests.factories import make_session, make_user
from tests.observations import assert_error, replace_table, table_contents

pytestmark = pytest.mark.django_db

NIL_ID = "00000000-0000-0000-0000-000000000000"


def entries(number: int) -> list[str]:
    """The ids of that many entries, newest first."""
    at = timezone.now() - timedelta(days=1)
    made = [
        AuditLogEntry(
            id=uuid4(),
            created_at=at + timedelta(seconds=index),
            payload={"action": "login", "log_type": "account", "actor_username": f"user{index}@example.com"},
        )
        for index in range(number)
    ]
    AuditLogEntry.objects.bulk_create(made)
    return [str(entry.id) for entry in reversed(made)]


def test_search_returns_deletion(api: Api) -> None:
    user = make_user(email="ann@example.com")
    expect_success(api, "DELETE", f"/admin/users/{user.id}")
    before = table_contents()
    response = ask(api, "GET", "/admin/audit")
    [entry] = response.json()
    assert set(entry) == {"id", "payload", "created_at", "ip_address"}
    assert entry["ip_address"] == "127.0.0.1"
    assert entry["payload"].pop("request_id")
    assert entry["created_at"].endswith("Z")
    assert entry["payload"] == {
        "action": "user_deleted",
        "actor_id": NIL_ID,
        "actor_username": "service_role",
        "actor_role": "service_role",
        "actor_via_sso": False,
        "log_type": "team",
        "traits": {"user_email": "ann@example.com", "user_id": str(user.id), "user_phone": "", "is_soft": False},
    }
    assert response.headers["Link"] == '</admin/audit?page=1>; rel="last"'
    assert response.headers["X-Total-Count"] == "1"
    assert response.headers["Cache-Control"] == "no-store"
    assert table_contents() == before


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("action:user_deleted", 1),
        ("action:USER_", 2),
        ("action:user%25ied", 1),
        ("type:team", 1),
        ("type:user", 1),
        ("author:role", 2),
        ("author:service_role", 2),
        ("author:ann", 0),
        ("action:", 2),
        ("action:user:deleted", 0),
        ("author:'; DROP TABLE users; --", 0),
    ],
)
def test_a_search_covers_its_scope_only(api: Api, query: str, number: int) -> None:
    user = make_user(email="ann@example.com")
    expect_success(api, "PUT", f"/admin/users/{user.id}", {})
    expect_success(api, "DELETE", f"/admin/users/{user.id}")
    response = ask(api, "GET", f"/admin/audit?query={query.replace('%25', '%25')}")
    assert (len(response.json()), response.headers["X-Total-Count"]) == (number, str(number))


def test_search_by_author_matches_name(api: Api) -> None:
    user = make_user(email="ann@example.com", data={"full_name": "Ann Other"})
    api.post("/logout", bearer=make_session(user).access_token)
    assert len(expect_success(api, "GET", "/admin/audit?query=author:other")) == 1
    assert len(expect_success(api, "GET", "/admin/audit?query=author:ANN@example")) == 1


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("query=foo:bar", "Invalid query scope: foo:bar"),
        ("query=action", "Invalid query scope: action"),
        ("query=", "Invalid query scope: "),
        ("query=Action:x", "Invalid query scope: Action:x"),
        ("page=x&query=foo", 'Bad Pagination Parameters: strconv.ParseUint: parsing "x": invalid syntax'),
        ("per_page=0", "Bad Pagination Parameters: per_page must be greater than 0"),
        ("user=x", "Unknown parameter: user"),
        ("query=action:a%00b", "The parameter query must not contain U+0000"),
    ],
)
def test_malformed_search_is_rejected(api: Api, query: str, text: str) -> None:
    entries(1)
    assert_error(ask(api, "GET", f"/admin/audit?{query}"), 400, "validation_failed", text)


def test_the_newest_entries_come_first(api: Api) -> None:
    made = entries(5)
    pages = [ask(api, "GET", f"/admin/audit?per_page=2&page={page}&query=action:login") for page in (1, 2, 3)]
    assert [entry["id"] for page in pages for entry in page.json()] == made
    assert {page.headers["X-Total-Count"] for page in pages} == {"5"}
    assert pages[0].headers["Link"] == (
        '</admin/audit?page=2&per_page=2&query=action%3Alogin>; rel="next", '
        '</admin/audit?page=3&per_page=2&query=action%3Alogin>; rel="last"'
    )


def test_large_totals_are_estimates(api: Api) -> None:
    replace_table("audit_log_entries")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_log_entries (id, payload, created_at)"
            " SELECT gen_random_uuid(), jsonb_build_object('action', 'login', 'actor_username', 'a' || n), now()"
            " FROM generate_series(1, 12000) n"
        )
        cursor.execute("ANALYZE audit_log_entries")
    assert 10_000 < int(ask(api, "GET", "/admin/audit").headers["X-Total-Count"]) < 13_000
    assert ask(api, "GET", "/admin/audit?count=exact").headers["X-Total-Count"] == "12000"
    assert ask(api, "GET", "/admin/audit?query=author:a11999").headers["X-Total-Count"] == "1"

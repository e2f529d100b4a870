"""Searches in a table that is too large to be read as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from accounts.models import User
from accounts.users.search import filters, listing, queries
from accounts.users.search.filters import Cursor, UserFilter
from authsvc.api.pagination import PageRequest
from tests.accounts.administration.admin_requests import ask, expect_success
from tests.conftest import Api
from tests.factories import make_user

pytestmark = pytest.mark.django_db

START = datetime(2026, 1, 1, tzinfo=UTC)
AUDIENCE = "authenticated"
USERS, PARTNERS = 40_000, 20_000

# One second apart. The users of the other audience are what the planner mistakes for matches.
_INSERT = """
    INSERT INTO users (id, aud, email, created_at, updated_at, raw_user_meta_data, raw_app_meta_data)
    SELECT gen_random_uuid(), %s, %s || n || '@example.com', %s::timestamptz + n * interval '1s', now(), '{}', '{}'
      FROM generate_series(1, %s) n
"""


@pytest.fixture(scope="module", autouse=True)
def large_table(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(_INSERT, [AUDIENCE, "user", START, USERS])
        cursor.execute(_INSERT, ["partners", "partner", START, PARTNERS])
        cursor.execute("ANALYZE users")
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("TRUNCATE users CASCADE")
        cursor.execute("ANALYZE users")


@pytest.fixture
def partners() -> None:
    """Users of the audience that match `partner`: three, the oldest ones; the planner expects a third of all users."""
    for minute, name in enumerate(("partner.a", "partner.b", "partner.c")):
        make_user(email=f"{name}@example.com", created_at=START - timedelta(minutes=60 - minute))


def test_table_is_larger_than_limits_of_search() -> None:
    assert USERS + PARTNERS > queries.LARGE_TABLE
    assert USERS > queries._SCAN_LIMIT + 10_000
    assert queries.estimate(UserFilter(aud=AUDIENCE, text="partner")) > queries.COLLECT_LIMIT


def test_filter_with_overestimated_matches_returns_all_of_them(api: Api, partners: None) -> None:
    response = ask(api, "GET", "/admin/users?filter=partner&per_page=5")
    assert [user["email"] for user in response.json()["users"]] == [f"partner.{n}@example.com" for n in "cba"]
    assert response.headers["X-Total-Count"] == "3"


def test_filter_with_many_matches_returns_full_page(api: Api) -> None:
    shown = expect_success(api, "GET", "/admin/users?filter=user&per_page=3")["users"]
    assert [user["email"] for user in shown] == [f"user{USERS - n}@example.com" for n in range(3)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("filter=zq", ["zq.oldest", "named.old", "a.zq.newest", "named.new"]),
        ("filter=zq&sort=created_at+desc", ["named.new", "a.zq.newest", "named.old", "zq.oldest"]),
        ("filter=zq&per_page=1&page=2", ["named.old"]),
        ("filter=ZQ", ["named.old", "named.new"]),
        ("filter=.zq", ["a.zq.newest"]),
        ("filter=zq&count=exact", ["zq.oldest", "a.zq.old", "named.old", "a.zq.newest", "named.new"]),
        ("filter=a.zq", ["a.zq.newest"]),
        ("filter=zq.old", ["zq.oldest", "a.zq.old"]),
        ("filter=us&per_page=1", ["user1"]),
    ],
)
def test_text_without_index_is_searched_at_beginning_and_among_newest(
    api: Api, query: str, expected: list[str]
) -> None:
    for minute, name in enumerate(("zq.oldest", "a.zq.old", "named.old")):
        data = {"full_name": "Zq Old"} if name == "named.old" else {}
        make_user(email=f"{name}@example.com", data=data, created_at=START - timedelta(minutes=60 - minute))
    make_user(email="a.zq.newest@example.com")
    make_user(email="named.new@example.com", data={"full_name": "new Zq"})
    query = query if "sort" in query else f"{query}&sort=created_at+asc"
    response = ask(api, "GET", f"/admin/users?{query}")
    assert [user["email"].removesuffix("@example.com") for user in response.json()["users"]] == expected
    if "per_page" not in query:
        assert response.headers["X-Total-Count"] == str(len(expected))


def test_pages_of_restricted_search_show_one_set() -> None:
    restricted = UserFilter(aud=AUDIENCE, text="se")
    pages = [listing.list_page(restricted, PageRequest(number=number, size=2000)) for number in (1, 2, 3)]
    assert [UUID(user.id) for page in pages for user in page.users] == _newest(queries.NEWEST)
    assert [page.total for page in pages] == [queries.NEWEST] * 3


def test_cursors_of_restricted_search_show_one_set() -> None:
    pages = _by_cursor(UserFilter(aud=AUDIENCE, text="se"), size=1000)
    assert [user_id for page in pages for user_id in page] == _newest(queries.NEWEST)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("is_ascending", [True, False])
def test_cursors_of_scan_include_users_without_times(is_ascending: bool, size: int) -> None:
    oldest = list(User.objects.filter(aud=AUDIENCE).order_by("created_at").values_list("id", flat=True)[:5])
    *newest, (before_id, before_time) = (
        User.objects.filter(aud=AUDIENCE).order_by("-created_at").values_list("id", "created_at")[:6]
    )
    User.objects.filter(id__in=oldest).update(created_at=None)
    expected = [*sorted(oldest, reverse=True), *(user_id for user_id, _ in newest)]
    user_filter = UserFilter(aud=AUDIENCE, text="user", is_ascending=is_ascending)
    if is_ascending:
        pages = _by_cursor(user_filter, size=size, after=Cursor(before_time, before_id))
        assert [user_id for page in pages for user_id in page] == expected[::-1]
        assert {len(page) for page in pages[:-1]} == {size}
    else:
        pages = _by_cursor(user_filter, size=size, max_pages=10 // size)
        assert [user_id for page in pages for user_id in page] == expected
        assert {len(page) for page in pages} == {size}


def _newest(number: int) -> list[UUID]:
    return list(User.objects.filter(aud=AUDIENCE).order_by("-created_at").values_list("id", flat=True)[:number])


def _by_cursor(
    user_filter: UserFilter, *, size: int, after: Cursor | None = None, max_pages: int = 100
) -> list[list[UUID]]:
    """The ids of each page; the cursors are encoded and decoded."""
    pages: list[list[UUID]] = []
    while len(pages) < max_pages:
        page = listing.list_after(user_filter, after=after, size=size)
        pages.append([UUID(user.id) for user in page.users])
        if not page.next_cursor:
            break
        after = filters.decode_cursor(page.next_cursor)
    return pages

"""GET /admin/users in pages by cursor."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from accounts.models import User
from accounts.users.search import filters, listing
from accounts.users.search.filters import Cursor, UserFilter
from tests.accounts.administration.admin_requests import ask
from tests.accounts.administration.list_requests import (
    START,
    ids,
    make_users,
    make_users_without_times,
    quoted,
    read_list_headers,
)
from tests.conftest import Api, ChangeConfig
from tests.observations import assert_error

pytestmark = pytest.mark.django_db


def test_cursors_are_ignored_by_default(api: Api) -> None:
    make_users(2)
    response = ask(api, "GET", "/admin/users?limit=1&cursor=x")
    assert len(response.json()["users"]) == 2
    assert response.headers["X-Total-Count"] == "2"
    assert "pagination" not in response.json()


@pytest.mark.parametrize("sort", ["", "&sort=created_at+asc"])
@pytest.mark.parametrize("condition", ["", "&filter=user", "&filter=example.com"])
def test_cursors_lead_through_all_users(api: Api, auth_config: ChangeConfig, sort: str, condition: str) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    made = make_users(5)
    User.objects.filter(id__in=made[2:4]).update(created_at=START + timedelta(days=2))
    target, shown, pages = f"/admin/users?limit=2{sort}{condition}", [], 0
    while target:
        response = ask(api, "GET", target)
        shown += [user["id"] for user in response.json()["users"]]
        pages += 1
        pagination = response.json()["pagination"]
        assert "X-Total-Count" not in response.headers
        assert pagination["has_more"] == ("next_cursor" in pagination) == ("Link" in response.headers)
        target = (
            response.headers["Link"].removeprefix("<").removesuffix('>; rel="next"') if pagination["has_more"] else ""
        )
    assert (sorted(shown), pages) == (sorted(made), 3)
    assert shown == ids(api, f"?per_page=9{sort}{condition}")


def test_cursor_link_keeps_other_parameters(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    make_users(3)
    response = ask(api, "GET", "/admin/users?page=&per_page=&limit=1&filter=user")
    cursor = response.json()["pagination"]["next_cursor"]
    assert response.headers["Link"] == f'</admin/users?cursor={cursor}&filter=user&limit=1>; rel="next"'


@pytest.mark.parametrize(("query", "shown"), [("", 50), ("?limit=2000", 60), ("?limit=60", 60)])
def test_a_page_by_cursor_has_up_to_a_thousand(api: Api, auth_config: ChangeConfig, query: str, shown: int) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    make_users(60)
    assert len(ids(api, query)) == shown


@pytest.mark.parametrize("query", ["?per_page=1", "?page=1"])
def test_page_parameter_disables_cursors(api: Api, auth_config: ChangeConfig, query: str) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    make_users(2)
    assert read_list_headers(api, query)[1] == "2"


def _encoded(cursor: object) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(cursor)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "not-a-valid-cursor*",
        "x",
        _encoded([]),
        _encoded("text"),
        _encoded({"created_at": "2024-03-04T05:06:07Z"}),
        _encoded({"id": "11111111-1111-4111-8111-111111111111"}),
        _encoded({"created_at": "2024-03-04T05:06:07Z", "id": "00000000-0000-0000-0000-000000000000"}),
        _encoded({"created_at": "yesterday", "id": "11111111-1111-4111-8111-111111111111"}),
        _encoded({"created_at": None, "id": "11111111-1111-4111-8111-111111111111"}),
        _encoded({"created_at": "0001-01-01T00:00:00+14:00", "id": "11111111-1111-4111-8111-111111111111"}),
        _encoded({"created_at": "2024-03-04T05:06:07Z", "id": 5}),
    ],
)
def test_malformed_cursor_is_rejected(api: Api, auth_config: ChangeConfig, cursor: str) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    make_users(1)
    response = ask(api, "GET", f"/admin/users?cursor={quoted(cursor)}")
    assert (response.status_code, response.json()["error_code"]) == (400, "validation_failed")
    assert response.json()["msg"].startswith("Bad Pagination Parameters: invalid cursor")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("limit=0", "limit must be greater than 0"),
        ("limit=x", 'strconv.ParseUint: parsing "x": invalid syntax'),
    ],
)
def test_malformed_limit_is_rejected(api: Api, auth_config: ChangeConfig, query: str, text: str) -> None:
    auth_config(experimental={"cursor_pagination_enabled": True})
    assert_error(
        ask(api, "GET", f"/admin/users?{query}"), 400, "validation_failed", f"Bad Pagination Parameters: {text}"
    )


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2024, 3, 4, 5, 6, 7, 123456, UTC), "2024-03-04T05:06:07.123456Z"),
        (datetime(2024, 3, 4, 5, 6, 7, 120000, UTC), "2024-03-04T05:06:07.12Z"),
        (datetime(2024, 3, 4, 5, 6, 10, 0, UTC), "2024-03-04T05:06:10Z"),
    ],
)
def test_cursors_are_compatible_with_other_servers(moment: datetime, written: str) -> None:
    user_id = UUID("11111111-1111-4111-8111-111111111111")
    text = filters.encode_cursor(Cursor(moment, user_id))
    assert text == _encoded({"created_at": written, "id": str(user_id)})
    assert filters.decode_cursor(text) == Cursor(moment, user_id)


def test_known_cursor_round_trips() -> None:
    known = (
        "eyJjcmVhdGVkX2F0IjoiMjAyNC0wMy0wNFQwNTowNjowNy4xMjM0NTZaIiwiaWQiOiIxMTExMTExMS0xMTExLTQxMTEtODExMS0xMTEx"
        "MTExMTExMTEifQ"
    )
    assert filters.encode_cursor(filters.decode_cursor(known)) == known


def _by_cursor(user_filter: UserFilter, *, size: int) -> list[list[UUID]]:
    """The ids of every page; a cursor goes to the client and comes back."""
    pages: list[list[UUID]] = []
    cursor = ""
    while not pages or cursor:
        after = filters.decode_cursor(cursor) if cursor else None
        page = listing.list_after(user_filter, after=after, size=size)
        pages.append([UUID(user.id) for user in page.users])
        cursor = page.next_cursor
    return pages


@pytest.mark.parametrize("is_ascending", [True, False])
@pytest.mark.parametrize("filter", ["", "user"])
@pytest.mark.parametrize("size", [2, 5])
def test_cursors_lead_through_users_without_times(filter: str, is_ascending: bool, size: int) -> None:
    expected = make_users_without_times() if is_ascending else make_users_without_times()[::-1]
    pages = _by_cursor(UserFilter(aud="authenticated", text=filter, is_ascending=is_ascending), size=size)
    assert [user_id for page in pages for user_id in page] == expected
    assert {len(page) for page in pages[:-1]} == {size}

"""GET /admin/users: pages, order, conditions and totals."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.http import QueryDict

from accounts.models import Identity, User
from accounts.users.search import filters, queries
from authsvc.db import sql as db
from tests.accounts.administration import admin_requests
from tests.accounts.administration.admin_requests import ask, expect_success
from tests.accounts.administration.list_requests import (
    START,
    ids,
    make_users,
    make_users_without_times,
    quoted,
    read_list_headers,
)
from tests.conftest import Api
from tests.factories import make_factor, make_user
from tests.observations import assert_error, replace_table

pytestmark = pytest.mark.django_db

OTHER = "6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c12"


def test_empty_list(api: Api) -> None:
    response = ask(api, "GET", "/admin/users")
    assert response.json() == {"users": [], "aud": "authenticated"}
    assert response.headers["Link"] == '</admin/users?page=0>; rel="last"'
    assert response.headers["X-Total-Count"] == "0"
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("number", "query", "link"),
    [
        (
            2,
            "?per_page=1",
            '</admin/users?page=2&per_page=1>; rel="next", </admin/users?page=2&per_page=1>; rel="last"',
        ),
        (
            5,
            "?page=1&per_page=2",
            '</admin/users?page=2&per_page=2>; rel="next", </admin/users?page=3&per_page=2>; rel="last"',
        ),
        (5, "?page=3&per_page=2", '</admin/users?page=3&per_page=2>; rel="last"'),
        (5, "?page=9&per_page=2", '</admin/users?page=3&per_page=2>; rel="last"'),
        (
            3,
            "?page=0&per_page=2",
            '</admin/users?page=1&per_page=2>; rel="next", </admin/users?page=2&per_page=2>; rel="last"',
        ),
        (
            2,
            "?sort=created_at%20asc&per_page=1&filter=a%40b%20%26c%7E",
            '</admin/users?filter=a%40b+%26c~&page=0&per_page=1&sort=created_at+asc>; rel="last"',
        ),
        (1, "?page=&per_page=", '</admin/users?page=1&per_page=>; rel="last"'),
    ],
)
def test_the_links_lead_to_the_next_and_the_last_page(api: Api, number: int, query: str, link: str) -> None:
    make_users(number)
    assert read_list_headers(api, query)[0] == link


def test_trailing_slash_is_kept_in_links(api: Api) -> None:
    assert ask(api, "GET", "/admin/users/").headers["Link"] == '</admin/users/?page=0>; rel="last"'


def test_pages_contain_each_user_once(api: Api) -> None:
    made = make_users(7)
    shown = [user_id for page in range(1, 5) for user_id in ids(api, f"?page={page}&per_page=2")]
    assert shown == made[::-1]
    assert read_list_headers(api, "?page=4&per_page=2")[1] == "7"
    assert ids(api, "?page=0&per_page=2") == ids(api, "?page=1&per_page=2")
    assert ids(api, "?page=5&per_page=2") == []


def test_page_size_is_fifty(api: Api) -> None:
    make_users(51)
    assert len(ids(api)) == 50
    assert len(ids(api, "?per_page=1000000")) == 51
    assert read_list_headers(api) == ('</admin/users?page=2>; rel="next", </admin/users?page=2>; rel="last"', "51")


@pytest.mark.parametrize(
    ("sort", "is_ascending"),
    [
        ("created_at", False),
        ("created_at desc", False),
        ("created_at DESC", False),
        ("created_at asc", True),
        ("created_at Asc", True),
    ],
)
def test_users_are_sorted_by_age(api: Api, sort: str, is_ascending: bool) -> None:
    made = make_users(3)
    shown = ids(api, f"?sort={sort.replace(' ', '+')}")
    assert shown == (made if is_ascending else made[::-1])


def test_the_first_of_several_orders_counts(api: Api) -> None:
    made = make_users(2)
    assert ids(api, "?sort=created_at+asc&sort=created_at+desc") == made


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_users_with_equal_times_are_sorted_by_id(api: Api, order: str) -> None:
    make_users(6)
    User.objects.update(created_at=START)
    shown = [
        user_id for page in range(1, 4) for user_id in ids(api, f"?page={page}&per_page=2&sort=created_at+{order}")
    ]
    assert shown == sorted(shown, reverse=order == "desc")
    assert len(set(shown)) == 6


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sort=email", "Bad Sort Parameters: bad field for sort 'email'"),
        ("sort=", "Bad Sort Parameters: bad field for sort ''"),
        ("sort=created_at&sort=x", "Bad Sort Parameters: bad field for sort 'x'"),
        (
            "sort=created_at+up",
            "Bad Sort Parameters: bad direction for sort 'up', only 'asc' and 'desc' allowed",
        ),
        ("sort=email&page=x", "Bad Sort Parameters: bad field for sort 'email'"),
        ("page=-1&per_page=10", 'Bad Pagination Parameters: strconv.ParseUint: parsing "-1": invalid syntax'),
        ("page=one", 'Bad Pagination Parameters: strconv.ParseUint: parsing "one": invalid syntax'),
        ("page=%2B1", 'Bad Pagination Parameters: strconv.ParseUint: parsing "+1": invalid syntax'),
        ("per_page=1.5", 'Bad Pagination Parameters: strconv.ParseUint: parsing "1.5": invalid syntax'),
        ("per_page=%D9%A1", 'Bad Pagination Parameters: strconv.ParseUint: parsing "١": invalid syntax'),
        (
            "page=18446744073709551616",
            'Bad Pagination Parameters: strconv.ParseUint: parsing "18446744073709551616": value out of range',
        ),
        ("per_page=0", "Bad Pagination Parameters: per_page must be greater than 0"),
        ("filter=", "The parameter filter must not be empty"),
        ("email=", "The parameter email must not be empty"),
        ("phone=", "The parameter phone must not be empty"),
        ("phone=%2B", "The parameter phone must not be empty"),
        ("id=", "The parameter id must not be empty"),
        ("id=7", "The parameter id must be a UUID"),
        ("count=planned", "The parameter count can only be exact"),
        ("count=", "The parameter count can only be exact"),
        ("emial=a@example.com", "Unknown parameter: emial"),
        ("filter=a%00b", "The parameter filter must not contain U+0000"),
        ("email=a%00b", "The parameter email must not contain U+0000"),
    ],
)
def test_malformed_parameter_is_rejected(api: Api, query: str, text: str) -> None:
    make_users(1)
    assert_error(ask(api, "GET", f"/admin/users?{query}"), 400, "validation_failed", text)


@pytest.mark.parametrize(
    "query",
    ["?page=18446744073709551615", "?per_page=18446744073709551615", "?page=0018446744073709551615&per_page=99"],
)
def test_largest_page_number_is_accepted(api: Api, query: str) -> None:
    make_users(2)
    assert read_list_headers(api, query)[1] == "2"


def test_parameter_of_gateways_is_ignored(api: Api) -> None:
    made = make_users(1)
    assert ids(api, "?apikey=x") == made


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("test1", ["test1@example.com"]),
        ("User", ["test1@example.com"]),
        ("user", ["test1@example.com", "user2@example.com"]),
        ("TEST U", ["test1@example.com"]),
        ("Test1", []),
        ("t_st1", ["test1@example.com"]),
        ("t%1", ["test1@example.com"]),
        ("15551234567", []),
        ("example.com", ["test1@example.com", "user2@example.com"]),
        ("'; --", []),
        ("\\", []),
    ],
)
def test_filter_matches_part_of_address_or_name(api: Api, filter: str, expected: list[str]) -> None:
    make_user(email="test1@example.com", data={"full_name": "Test User"}, phone="15551234567")
    make_user(email="user2@example.com", data={"name": "test1"})
    response = api.get(f"/admin/users?filter={quoted(filter)}&sort=created_at+asc", bearer=admin_requests.token())
    assert [user["email"] for user in response.json()["users"]] == expected
    assert response.headers["X-Total-Count"] == str(len(expected))


def test_filtered_list_has_pages(api: Api) -> None:
    make_users(5)
    make_user(email="other@example.org")
    assert read_list_headers(api, "?filter=user&per_page=2&page=3") == (
        '</admin/users?filter=user&page=3&per_page=2>; rel="last"',
        "5",
    )
    assert [len(ids(api, f"?filter=user&per_page=2&page={page}")) for page in (1, 2, 3, 4)] == [2, 2, 1, 0]
    assert read_list_headers(api, "?filter=user&per_page=2&page=4")[1] == "5"


@pytest.mark.parametrize(
    "query",
    [
        "email=Ann@Example.com",
        "phone=%2B1+555+1234567",
        "phone=15551234567",
        "id={id}",
        "id={hex}",
        "email=ann@example.com&phone=15551234567&id={id}",
        "email=ann@example.com&filter=ann",
    ],
)
def test_exact_conditions_match_user(api: Api, query: str) -> None:
    user = make_user(email="ann@example.com", phone="15551234567")
    make_user(email="joann@example.com")
    condition = query.format(id=user.id, hex=user.id.hex)
    assert ids(api, f"?{condition}") == [str(user.id)]
    assert read_list_headers(api, f"?{condition}")[1] == "1"


@pytest.mark.parametrize(
    "query", ["email=ann", "email=%25", "phone=1555", f"id={OTHER}", "email=ann@example.com&filter=bob"]
)
def test_exact_conditions_match_whole_value(api: Api, query: str) -> None:
    make_user(email="ann@example.com", phone="15551234567")
    assert ids(api, f"?{query}") == []
    assert read_list_headers(api, f"?{query}")[1] == "0"


def test_email_condition_matches_sso_users(api: Api) -> None:
    local = make_user(email="ann@example.com")
    sso = [make_user(is_sso_user=True, email="") for _ in range(2)]
    for number, user in enumerate(sso):
        User.objects.filter(id=user.id).update(email="ann@example.com")
        Identity.objects.filter(user=user).update(
            provider=f"sso:{number}", identity_data={"sub": "x", "email": "ann@example.com"}
        )
    assert set(ids(api, "?email=ann@example.com")) == {str(user.id) for user in [local, *sso]}


def test_sso_user_with_several_identities_is_listed_once(api: Api) -> None:
    user = make_user(is_sso_user=True, email="")
    User.objects.filter(id=user.id).update(email="ann@example.com")
    for number in range(3):
        Identity.objects.create(
            id=uuid4(),
            user=user,
            provider=f"sso:{number}",
            provider_id="x",
            created_at=START,
            updated_at=START,
            identity_data={"sub": "x", "email": "ann@example.com"},
        )
    (shown,) = expect_success(api, "GET", "/admin/users?email=ann@example.com")["users"]
    assert len(shown["identities"]) == Identity.objects.filter(user=user).count()
    assert read_list_headers(api, "?email=ann@example.com")[1] == "1"


def test_list_contains_one_audience(api: Api) -> None:
    make_user(email="ann@example.com")
    other = make_user(email="bob@example.com", audience="other")
    for query in ("", "?filter=example", "?email=bob@example.com", f"?id={other.id}"):
        response = ask(api, "GET", f"/admin/users{query}", headers={"X-JWT-AUD": "other"}).json()
        assert ([user["email"] for user in response["users"]], response["aud"]) == (["bob@example.com"], "other")
    assert ids(api, "?email=bob@example.com") == []
    mine = admin_requests.token(aud="other")
    assert [user["email"] for user in api.get("/admin/users", bearer=mine).json()["users"]] == ["ann@example.com"]


def test_list_contains_complete_users(api: Api) -> None:
    user = make_user(email="ann@example.com", data={"a": [1.5, None, {"b": "ü"}]}, banned_until=START)
    make_factor(user, friendly_name="phone", secret="hidden")
    make_user(email="bob@example.com", deleted_at=START)
    shown = {user["email"]: user for user in expect_success(api, "GET", "/admin/users")["users"]}
    for stored in User.objects.all():
        assert shown[stored.email or ""] == expect_success(api, "GET", f"/admin/users/{stored.id}")
    assert len(shown["ann@example.com"]["identities"]) == 1
    assert shown["ann@example.com"]["factors"][0]["friendly_name"] == "phone"
    assert "factors" not in shown["bob@example.com"]
    assert shown["bob@example.com"]["deleted_at"] == "2026-01-01T00:00:00.000000Z"
    assert b"hidden" not in ask(api, "GET", "/admin/users").content


def _thousands(number: int) -> None:
    """That many users with statistics, made by the database; every tenth has a name."""
    if not User.objects.exists():
        replace_table("users")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO users (id, aud, email, created_at, updated_at, raw_user_meta_data, raw_app_meta_data)"
            " SELECT gen_random_uuid(), 'authenticated', 'user' || n || '@example.com',"
            " %s::timestamptz + n * interval '1s', now(),"
            " CASE WHEN n %% 10 = 0 THEN jsonb_build_object('full_name', 'Ann ' || n) ELSE '{}' END, '{}'"
            " FROM generate_series(1, %s) n",
            [START, number],
        )
        cursor.execute("ANALYZE users")


@pytest.mark.parametrize(
    ("query", "is_close"),
    [
        ("", lambda total: 11_000 < total < 13_000),
        ("?count=exact", lambda total: total == 12_000),
        ("?filter=example.com", lambda total: 10_000 < total < 13_000),
        ("?filter=example.com&count=exact", lambda total: total == 12_000),
        ("?filter=user11999", lambda total: total == 1),
        ("?filter=ann", lambda total: total == 1200),
        ("?page=10000", lambda total: total > 11_000),
        ("?page=240", lambda total: total == 12_000),
    ],
)
def test_large_totals_are_estimates(api: Api, query: str, is_close: Callable[[int], bool]) -> None:
    _thousands(12_000)
    response = ask(api, "GET", f"/admin/users{query}")
    assert response.status_code == 200, response.content
    assert is_close(int(response.headers["X-Total-Count"])), response.headers["X-Total-Count"]


@pytest.mark.parametrize("query", ["", "&filter=example.com", "&filter=user1", "&filter=ann"])
@pytest.mark.parametrize("sort", ["asc", "desc"])
@pytest.mark.parametrize("page", [1, 3])
def test_large_lists_are_sorted_for_each_query_plan(api: Api, query: str, sort: str, page: int) -> None:
    _thousands(12_000)
    part = query.removeprefix("&filter=")
    expected = [
        email
        for email, name in User.objects.order_by(f"{'-' if sort == 'desc' else ''}created_at").values_list(
            "email", "raw_user_meta_data__full_name"
        )
        if part in (email or "") or part in (name or "").lower()
    ]
    shown = expect_success(api, "GET", f"/admin/users?page={page}&per_page=20&sort=created_at+{sort}{query}")["users"]
    assert [user["email"] for user in shown] == expected[(page - 1) * 20 : page * 20]


@pytest.mark.parametrize("query", ["", "&filter=user", "&per_page=3&page=2"])
def test_users_without_times_are_listed(api: Api, query: str) -> None:
    expected = make_users_without_times()
    if "page=2" in query:
        expected = expected[3:6]
    response = ask(api, "GET", f"/admin/users?sort=created_at+asc{query}")
    assert response.status_code == 200, response.content
    shown = {UUID(user["id"]): user for user in response.json()["users"]}
    assert list(shown) == expected
    assert response.headers["X-Total-Count"] == "10"
    assert shown[expected[0]]["created_at"]
    assert shown[expected[-1]]["created_at"] is shown[expected[-1]]["updated_at"] is None


def test_user_without_times_equals_listed_user(api: Api) -> None:
    user = make_user()
    User.objects.update(created_at=None, updated_at=None)
    Identity.objects.update(created_at=None, updated_at=None)
    shown = expect_success(api, "GET", f"/admin/users/{user.id}")
    assert [shown] == expect_success(api, "GET", "/admin/users")["users"]
    for part in (shown, *shown["identities"]):
        assert part["created_at"] is part["updated_at"] is None


@pytest.mark.django_db(transaction=True)
def test_page_is_read_from_index_without_sort() -> None:
    _thousands(12_000)
    with connection.cursor() as cursor:
        cursor.execute(
            "EXPLAIN SELECT u.id, u.created_at FROM users u WHERE u.aud = 'authenticated'"
            " ORDER BY u.created_at DESC, u.id DESC LIMIT 50 OFFSET 5000"
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index" in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("condition", "indexes"),
    [
        # Both begin with the address and cost the same.
        ("email=ann@example.com", ("users_email_partial_key", "users_email_id_idx")),
        ("phone=15551234567", ("users_phone_key",)),
        ("id=6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11", ("users_pkey",)),
    ],
)
def test_exact_conditions_are_answered_from_an_index(condition: str, indexes: tuple[str, ...]) -> None:
    _thousands(12_000)
    user_filter = filters.parse(QueryDict(condition), aud="authenticated")
    sql, values = queries.match_sql(user_filter)
    rows = db.fetch_rows(f"EXPLAIN {sql}", values)
    plan = "\n".join(line for (line,) in rows)
    assert any(index in plan for index in indexes)
    assert "Seq Scan" not in plan

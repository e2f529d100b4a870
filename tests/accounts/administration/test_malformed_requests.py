"""Malformed requests to the admin API: a documented error, and no write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.accounts.administration.admin_requests import ask
from tests.conftest import Api
from tests.factories import make_factor, make_user
from tests.observations import table_contents

pytestmark = pytest.mark.django_db

TEXT = ("id", "aud", "role", "email", "phone", "password", "password_hash", "ban_duration")
CHANGED = ("role", "email", "phone", "password", "ban_duration")
FLAGS = ("email_confirm", "phone_confirm")
OBJECTS = ("user_metadata", "app_metadata")
ODD = [
    "\0", "a\0b", "\ud800", "x" * 100_000, "%", "\\", "'; DROP TABLE users; --", "\u202e", "１２３", "a@b", "٣", "\n",
    "-0", "٠h", "1" * 5000 + "h", "{}", "[]", "null", "$2b$10$", "$argon2id$", "00000000-0000-0000-0000-000000000000",
]  # fmt: skip
WRONG = {
    **{name: [1, True, [], {}] for name in TEXT},
    **{name: [1, "true", [], {}] for name in FLAGS},
    **{name: [1, "x", [], True] for name in OBJECTS},
}
NOT_JSON = [
    b"",
    b" ",
    b"{",
    b"[1]",
    b'"x"',
    b"7",
    b"{} {}",
    b'{"email":"\xff"}',
    b"\xef\xbb\xbf{}",
    b"[" * 5000,
    b'{"a":NaN}',
]


def assert_handled(api: Api, method: str, path: str, body: Any) -> tuple[int, str]:
    """Status and code of a response that is a documented one, and that has written nothing unless it is a success."""
    before = table_contents()
    response = ask(api, method, path, body)
    assert response.status_code < 500, response.content
    if response.status_code >= 400:
        assert set(response.json()) >= {"code", "error_code", "msg"}
        assert table_contents() == before
    return response.status_code, response.json().get("error_code", "")


def paths() -> list[tuple[str, str]]:
    user = make_user()
    factor = make_factor(user)
    return [
        ("POST", "/admin/users"),
        ("POST", "/admin/users/6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11"),
        ("PUT", f"/admin/users/{user.id}"),
        ("PUT", f"/admin/users/{user.id}/factors/{factor.id}"),
    ]


@pytest.mark.parametrize("body", NOT_JSON)
def test_a_body_must_be_a_json_object(api: Api, body: bytes) -> None:
    for method, path in paths():
        assert assert_handled(api, method, path, body) == (400, "bad_json")


@pytest.mark.parametrize("name", WRONG)
def test_a_value_must_be_of_its_type(api: Api, name: str) -> None:
    for method, path in paths()[:3]:
        if method == "PUT" and name not in (*CHANGED, *FLAGS, *OBJECTS):
            continue
        for value in WRONG[name]:
            assert assert_handled(api, method, path, {"email": "ann@example.com", name: value}) == (400, "bad_json")


@pytest.mark.parametrize("name", TEXT)
def test_unusual_texts_are_rejected_or_stored_unchanged(api: Api, name: str) -> None:
    for method, path in paths()[:3]:
        for value in ODD:
            body = {"email": "ann@example.com", name: value}
            # Lone surrogates cannot be sent by a proper writer of JSON.
            sent = body if value != "\ud800" else b'{"email":"ann@example.com","%s":"\\ud800"}' % name.encode()
            assert_handled(api, method, path, sent)


@pytest.mark.parametrize("value", ["\0", "%00", "%ff", "x" * 10_000, "..%2f", "%7b%7d", "None", "*", "1 OR 1=1"])
def test_malformed_ids_are_rejected(api: Api, value: str) -> None:
    path = f"/admin/users/{value.replace(chr(0), '%00')}"
    for method in ("GET", "PUT", "DELETE", "POST"):
        assert assert_handled(api, method, path, {"email": "ann@example.com"}) in {
            (404, "validation_failed"),
            (404, "unknown"),
        }


@pytest.mark.parametrize(
    "name", ["page", "per_page", "sort", "filter", "email", "phone", "id", "count", "limit", "cursor"]
)
def test_unusual_conditions_are_rejected_or_answered(api: Api, name: str) -> None:
    make_user(email="ada@example.com")  # an address with random digits could match "1e9"
    for value in (
        "%00",
        "%FF",
        "%F0%9F%92%A9",
        "x" * 5000,
        "%25",
        "%5C",
        "%27",
        "-1",
        "1e9",
        "%E2%80%AE",
        "9" * 4000,
        "+",
    ):
        response = ask(api, "GET", f"/admin/users?{name}={value}")
        assert response.status_code in (200, 400), (name, value, response.content)
        if response.status_code == 200 and name in ("filter", "email", "phone", "id"):
            assert len(response.json()["users"]) == (1 if (name, value) == ("filter", "%25") else 0)


@pytest.mark.parametrize("audience", ["", "x" * 256, "é", "' OR true --"])
def test_unknown_audiences_have_no_users(api: Api, audience: str) -> None:
    make_user()
    response = ask(api, "GET", "/admin/users", headers={"X-JWT-AUD": audience})
    assert response.status_code in (200, 400)
    assert response.status_code == 400 or bool(response.json()["users"]) == (not audience)

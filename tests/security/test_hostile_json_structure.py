"""Attack: bodies whose structure costs more than their size: deep nesting, or very many keys or lists."""

from __future__ import annotations

import orjson
import pytest

from accounts.models import User
from tests.accounts.administration.admin_requests import token as admin_token
from tests.conftest import Api
from tests.factories import PASSWORD, make_session

pytestmark = pytest.mark.django_db


def nested(levels: int, *, opening: str = "[", closing: str = "]") -> bytes:
    """A body with `data` in which the objects and lists have this many levels, that of the body included."""
    inner = opening * (levels - 2) + ("1" if opening != "[" else "") + closing * (levels - 2)
    return b'{"email":"user@example.com","password":"%s","data":{"a":%s}}' % (PASSWORD.encode(), inner.encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_nesting_is_refused_everywhere(api: Api, opening: str, closing: str) -> None:
    signed_in, bearer = make_session(), admin_token()
    for levels in (33, 100, 963, 5_000):
        body = nested(levels, opening=opening, closing=closing)
        for method, path, token in (
            ("POST", "/signup", ""),
            ("POST", "/otp", ""),
            ("POST", "/token?grant_type=password", ""),
            ("PUT", "/user", signed_in.access_token),
            ("POST", "/admin/users", bearer),
            ("PUT", f"/admin/users/{signed_in.user.id}", bearer),
            ("POST", "/invite", bearer),
        ):
            response = api.request(method, path, body, bearer=token)
            assert response.status_code == 400, (levels, path)
            assert "bad_json" in (response.json().get("error_code"), response.json().get("error")), (levels, path)
    assert User.objects.count() == 1


def test_32_levels_are_accepted(api: Api) -> None:
    assert api.post("/signup", nested(32)).status_code == 200
    assert api.post("/signup", nested(33)).json()["msg"].endswith("more than 32 levels of nesting")


def test_many_brackets_side_by_side_are_accepted(api: Api) -> None:
    body = {"email": "user@example.com", "password": PASSWORD, "data": {"a": [[{}]] * 500, "b": "{[" * 500}}
    assert api.post("/signup", body).status_code == 200


def test_many_keys_are_refused(api: Api) -> None:
    bearer = make_session().access_token
    for document in (
        {f"{number}": 1 for number in range(9_999)} | {"data": {"a": 1, "b": 2}},
        {"data": {"a": [{"": 1}] * 10_001}},
    ):
        response = api.put("/user", orjson.dumps(document), bearer=bearer)
        assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")
        assert response.json()["msg"].endswith("more than 10000 keys")
    ignored = {f"{number}": ":" for number in range(9_998)} | {"data": {"a": 1}}
    assert api.put("/user", orjson.dumps(ignored), bearer=bearer).status_code == 200


def test_many_lists_are_refused(api: Api) -> None:
    response = api.post("/recover", b'{"ignored": [%s]}' % b",".join([b"[]"] * 50_000))
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")
    assert response.json()["msg"].endswith("more than 50000 objects and lists")

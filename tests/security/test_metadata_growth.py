"""Attack: metadata that grows with each request and is copied into tokens, audit entries and log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Identity, User
from authsvc.conf import AuthConfig
from authsvc.models import AuditLogEntry
from tests.accounts.administration.admin_requests import token as admin_token
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD, make_session, make_user
from tokens.models import Session

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

LIMIT = 16_384
REFUSED = (400, "validation_failed")
TEN_KIB = "x" * 10_240


def outcome(response: ApiResponse) -> tuple[int, str]:
    return response.status_code, response.json().get("error_code", "")


def stored(user: User, column: str = "raw_user_meta_data") -> Any:
    return User.objects.values_list(column, flat=True).get(id=user.id)


def test_merges_of_a_user_do_not_exceed_the_limit(api: Api) -> None:
    signed_in = make_session()
    assert api.put("/user", {"data": {"first": TEN_KIB}}, bearer=signed_in.access_token).status_code == 200
    refused = api.put("/user", {"data": {"second": TEN_KIB}}, bearer=signed_in.access_token)
    assert outcome(refused) == REFUSED
    assert refused.json()["msg"] == "User metadata must not be larger than 16384 bytes"
    assert "second" not in stored(signed_in.user)
    assert (
        api.put("/user", {"data": {"first": None, "second": TEN_KIB}}, bearer=signed_in.access_token).status_code == 200
    )
    assert "first" not in stored(signed_in.user)


@pytest.mark.parametrize(
    "value",
    [
        "x" * LIMIT,
        "\u20ac" * (LIMIT // 3),
        '"' * (LIMIT // 2),
        "\x01" * (LIMIT // 6 + 1),
        [1e300] * 60,
        [-1.5e-300] * 60,
        [[]] * 5_000,
        {f"key {number}": 1 for number in range(1_400)},
    ],
)
def test_size_is_that_of_the_stored_text(api: Api, value: Any) -> None:
    signed_in = make_session()
    assert outcome(api.put("/user", {"data": {"a": value}}, bearer=signed_in.access_token)) == REFUSED
    response = api.post("/signup", {"email": "new@example.com", "password": PASSWORD, "data": {"a": value}})
    assert outcome(response) == REFUSED
    assert not User.objects.filter(email="new@example.com").exists()


def test_new_accounts_keep_the_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"anonymous_enabled": True, "phone_enabled": True},
        sms={"autoconfirm": True},
        mailer={"autoconfirm": True},
    )
    data = {"a": "x" * LIMIT}
    for path, body in (
        ("/signup", {"email": "a@example.com", "password": PASSWORD}),
        ("/signup", {"phone": "14155550100", "password": PASSWORD}),
        ("/signup", {}),
        ("/otp", {"email": "a@example.com"}),
        ("/otp", {"phone": "14155550100"}),
        ("/magiclink", {"email": "a@example.com"}),
    ):
        assert outcome(api.post(path, {**body, "data": data})) == REFUSED, (path, body)
    assert not User.objects.exists()


def test_refusal_is_the_same_for_known_addresses(api: Api) -> None:
    make_user(email="known@example.com")
    make_user(email="pending@example.com", confirmed=False)
    data = {"a": "x" * LIMIT}
    for path, body in (
        ("/signup", {"password": PASSWORD}),
        ("/otp", {}),
        ("/otp", {"create_user": False}),
        ("/magiclink", {}),
    ):
        responses = [
            api.post(path, {"email": f"{name}@example.com", "data": data, **body}).content
            for name in ("known", "pending", "unknown")
        ]
        assert len(set(responses)) == 1, path


def test_administrators_keep_the_limits(api: Api) -> None:
    bearer, large = admin_token(), {"a": "x" * LIMIT}
    for name in ("user_metadata", "app_metadata"):
        body = {"email": "new@example.com", name: large}
        assert outcome(api.post("/admin/users", body, bearer=bearer)) == REFUSED
    invitation = {"email": "new@example.com", "data": large}
    assert outcome(api.post("/invite", invitation, bearer=bearer)) == REFUSED
    assert outcome(api.post("/admin/generate_link", {**invitation, "type": "invite"}, bearer=bearer)) == REFUSED
    link = {**invitation, "type": "signup", "password": PASSWORD}
    assert outcome(api.post("/admin/generate_link", link, bearer=bearer)) == REFUSED
    assert not User.objects.exists()
    # An administrator has set these metadata; those of a sign-up do not survive the link.
    pending = make_user(email="new@example.com", confirmed=False, raw_user_meta_data={"b": TEN_KIB})
    assert outcome(api.post("/admin/generate_link", {**link, "data": {"a": TEN_KIB}}, bearer=bearer)) == REFUSED
    for name in ("user_metadata", "app_metadata"):
        path = f"/admin/users/{pending.id}"
        assert outcome(api.put(path, {name: large}, bearer=bearer)) == REFUSED
        assert api.put(path, {name: {"b": TEN_KIB}}, bearer=bearer).status_code == 200
        assert outcome(api.put(path, {name: {"a": TEN_KIB}}, bearer=bearer)) == REFUSED
    assert "a" not in stored(pending) | stored(pending, "raw_app_meta_data")


def test_values_that_are_too_large_are_never_stored(api: Api) -> None:
    signed_in, large = make_session(), {"a": [1e300] * 60}
    with CaptureQueriesContext(connection) as captured:
        assert outcome(api.put("/user", {"data": large}, bearer=signed_in.access_token)) == REFUSED
        path = f"/admin/users/{signed_in.user.id}"
        for name in ("user_metadata", "app_metadata"):
            assert outcome(api.put(path, {name: large}, bearer=admin_token())) == REFUSED
    assert [query["sql"] for query in captured if query["sql"].startswith("UPDATE")] == []


def test_operator_can_raise_the_limit(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(metadata={"max_user_bytes": 65_536})
    signed_in = make_session()
    response = api.put("/user", {"data": {"a": "x" * 50_000}}, bearer=signed_in.access_token)
    assert response.status_code == 200
    token = make_session(signed_in.user).access_token
    assert len(token) > 49_152
    assert api.get("/user", bearer=token).status_code == 200


def test_metadata_from_before_the_limit_may_shrink_but_not_grow(api: Api) -> None:
    signed_in = make_session()
    User.objects.filter(id=signed_in.user.id).update(raw_user_meta_data={"a": TEN_KIB, "b": TEN_KIB, "c": TEN_KIB})
    assert outcome(api.put("/user", {"data": {"d": 1}}, bearer=signed_in.access_token)) == REFUSED
    assert api.put("/user", {"data": {"a": None}}, bearer=signed_in.access_token).status_code == 200
    assert api.put("/user", {"password": PASSWORD + "!"}, bearer=signed_in.access_token).status_code == 200
    assert set(stored(signed_in.user)) >= {"b", "c"}


@pytest.mark.parametrize("name", ["\u202e" + "x" * 9_000, {"a": "x" * 9_000}, ["x" * 9_000], "x" * 256])
def test_name_of_an_actor_is_cut_in_audit_and_logs(api: Api, caplog: pytest.LogCaptureFixture, name: Any) -> None:
    user = make_user(email="user@example.com", data={"full_name": name})
    with caplog.at_level(logging.INFO):
        signed_in = api.post("/token?grant_type=password", {"email": user.email, "password": PASSWORD})
    assert signed_in.status_code == 200
    assert signed_in.json()["user"]["user_metadata"]["full_name"] == name
    (entry,) = AuditLogEntry.objects.filter(payload__action="login")
    assert entry.payload is not None
    assert len(orjson.dumps(entry.payload)) < 800
    if isinstance(name, str):
        assert entry.payload["actor_name"] == name[:256]
    assert max(len(str(vars(record))) for record in caplog.records) < 4_000


def test_long_headers_are_cut(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    user = make_user()
    with caplog.at_level(logging.INFO):
        response = api.post(
            "/token?grant_type=password",
            {"email": user.email, "password": PASSWORD},
            headers={"User-Agent": "Mozilla/5.0 " + "x" * 30_000},
        )
    assert response.status_code == 200

    session = Session.objects.get(user_id=user.id)
    assert session.user_agent == ("Mozilla/5.0 " + "x" * 30_000)[:512]
    assert max(len(str(vars(record))) for record in caplog.records) < 4_000


def test_identity_data_has_the_limit_of_user_metadata(api: Api) -> None:
    assert Identity.objects.count() == 0
    user = make_user(data={"a": "x" * 15_000})
    assert Identity.objects.get(user=user).identity_data["a"] == "x" * 15_000

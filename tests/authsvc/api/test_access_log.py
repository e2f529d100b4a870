"""The access log: one line per request, with the documented fields and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from authsvc.conf import AuthConfig
from tests.conftest import Api
from tests.factories import PASSWORD, make_one_time_token, make_session, make_user

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

MEMBERS = {"component", "method", "path", "remote_addr", "referer", "status", "duration", "request_id", "route"}
PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


@pytest.fixture
def access(caplog: pytest.LogCaptureFixture) -> Callable[[], list[Any]]:
    """The access log lines written so far."""
    caplog.set_level(logging.INFO)
    return lambda: [record for record in caplog.records if record.name == "authsvc.api"]


def members(record: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in PLAIN}


def test_a_request_has_one_line(api: Api, access: Callable[[], list[Any]]) -> None:
    api.get("/settings?x=1&redirect_to=http://localhost:3000/in", headers={"X-Forwarded-For": "198.51.100.7"})
    (line,) = access()
    assert line.getMessage() == "request completed"
    assert line.levelno == logging.INFO
    fields = members(line)
    assert set(fields) == MEMBERS
    assert (fields["component"], fields["method"], fields["path"]) == ("api", "GET", "/settings")
    assert (fields["remote_addr"], fields["status"]) == ("198.51.100.7", 200)
    assert fields["referer"] == "http://localhost:3000"
    assert isinstance(fields["duration"], int)
    assert 0 < fields["duration"] < 10_000_000_000  # nanoseconds


@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_health_is_not_logged(api: Api, access: Callable[[], list[Any]], path: str) -> None:
    for method in ("GET", "POST"):
        api.request(method, path)
    Client().head(path)
    assert access() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "level", "error_code"),
    [
        ("GET", "/settings", None, 200, logging.INFO, None),
        ("GET", "/verify?type=signup&token=x", None, 303, logging.INFO, "otp_expired"),
        ("GET", "/nope", None, 404, logging.WARNING, "unknown"),
        ("PUT", "/signup", None, 405, logging.WARNING, "unknown"),
        ("POST", "/signup", b"{", 400, logging.WARNING, "bad_json"),
        ("GET", "/user", None, 401, logging.WARNING, "no_authorization"),
    ],
)
def test_the_level_follows_the_status(
    api: Api,
    access: Callable[[], list[Any]],
    method: str,
    path: str,
    body: bytes | None,
    status: int,
    level: int,
    error_code: str | None,
) -> None:
    assert api.request(method, path, body).status_code == status
    (line,) = access()
    assert (line.status, line.levelno) == (status, level)
    assert members(line).get("error_code") == error_code


def test_responses_of_the_framework_name_no_exception(
    api: Api, auth_config: ChangeConfig, access: Callable[[], list[Any]]
) -> None:
    auth_config(limits={"verify": 0.001})
    for _ in range(31):
        api.post("/verify", b"{")
    api.put("/verify")
    assert [line.status for line in access()[-2:]] == [429, 405]
    assert all("error" not in members(line) for line in access()[-2:])


@pytest.mark.usefixtures("slow_refill")
def test_a_limited_request_is_a_warning_and_a_failure_an_error(
    api: Api, auth_config: ChangeConfig, access: Callable[[], list[Any]]
) -> None:
    for _ in range(31):
        api.post("/otp", b"{")
    assert (access()[-1].status, access()[-1].levelno) == (429, logging.WARNING)
    made = make_session()
    auth_config(jwt={"keys": ({"kty": "oct"},)})
    api.get("/user", bearer=made.access_token)
    assert (access()[-1].status, access()[-1].levelno) == (500, logging.ERROR)


@pytest.mark.parametrize(
    ("path", "grant_type"),
    [("/token?grant_type=password", "password"), ("/token/?grant_type=foo", "foo"), ("/token", "")],
)
def test_the_line_of_the_token_endpoint_names_the_grant(
    api: Api, access: Callable[[], list[Any]], path: str, grant_type: str
) -> None:
    api.post(path, {})
    api.post("/recover?grant_type=password", {})
    token, recover = access()
    assert token.grant_type == grant_type
    assert not hasattr(recover, "grant_type")


def test_the_validated_redirect_target_is_logged(api: Api, access: Callable[[], list[Any]]) -> None:
    link = "/verify?type=signup&token=x"
    api.get(link, headers={"Referer": "https://evil.example/?token=secret"})
    api.get(link, headers={"Referer": "http://localhost:3000/page?code=secret#a"})
    api.get(f"{link}&redirect_to=http://localhost:3000/in")
    api.get("/settings?redirect_to=http://localhost:3000/in")
    site = "http://localhost:3000"
    assert [line.referer for line in access()] == [site, f"{site}/page", f"{site}/in", site]


def test_the_logged_address_is_the_trusted_one(access: Callable[[], list[Any]]) -> None:
    Client(REMOTE_ADDR="192.0.2.1").get("/settings", headers={"X-Forwarded-For": "198.51.100.7"})
    Client(REMOTE_ADDR="10.0.0.1").get("/settings", headers={"X-Forwarded-For": "203.0.113.1, 198.51.100.7, 10.0.0.2"})
    Client(REMOTE_ADDR="").get("/settings")
    assert [line.remote_addr for line in access()] == ["192.0.2.1", "198.51.100.7", ""]


def test_query_and_body_are_not_logged(api: Api, access: Callable[[], list[Any]]) -> None:
    user = make_user(email="user@example.com")
    secret = make_one_time_token(user)
    api.get(f"/verify?type=recovery&token={secret.link_token}")
    api.get(f"/verify?type=recovery&token={secret.link_token}")
    api.post("/token?grant_type=password", {"email": "user@example.com", "password": PASSWORD})
    made = make_session(user)
    api.get(f"/user?access_token={made.access_token}", bearer=made.access_token)
    entries = [members(line) for line in access()]
    assert [line.pop("auth_event")["action"] for line in entries if "auth_event" in line] == ["login", "login"]
    for hidden in (secret.link_token, secret.code, PASSWORD, made.access_token, "user@example.com"):
        assert hidden not in repr(entries)


def test_a_line_names_the_user_and_the_error(api: Api, access: Callable[[], list[Any]]) -> None:
    user = make_user(email="user@example.com")
    made = make_session(user)
    credentials = {"email": "user@example.com", "password": PASSWORD}
    api.get("/user", bearer=made.access_token)
    api.post("/token?grant_type=password", credentials)
    api.post("/token?grant_type=password", credentials | {"password": "another one"})
    api.get("/admin/users/abc", bearer=made.access_token)
    lines = [members(line) for line in access()]
    assert [line.get("user_id") for line in lines] == [str(user.id), str(user.id), None, None]
    assert [line.get("error_code") for line in lines] == [None, None, "invalid_credentials", "not_admin"]
    assert [line["route"] for line in lines] == ["/user", "/token", "/token", "/admin/users/{user_id}"]


def test_a_sign_in_has_a_separate_line(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    user = make_user(email="user@example.com")
    api.post("/token?grant_type=password", {"email": "user@example.com", "password": PASSWORD})
    (line,) = [members(record) for record in caplog.records if record.name == "tokens.sessions.sign_in_metrics"]
    assert line == {
        "metering": True,
        "action": "login",
        "login_method": "password",
        "instance_id": "00000000-0000-0000-0000-000000000000",
        "user_id": str(user.id),
    }


def test_successes_are_not_logged_above_info(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    api.get("/settings")
    api.get("/nope")
    assert [record.status for record in caplog.records if record.name == "authsvc.api"] == [404]  # type: ignore[attr-defined]

"""The request ID: generated or taken from the configured header, and shown in unexpected errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from authsvc.conf import AuthConfig
from tests.conftest import Api
from tests.factories import PASSWORD, make_session, make_user

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[Any]:
    return [record for record in caplog.records if record.getMessage() == message]


def test_every_request_has_a_unique_id(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            api.get("/settings", headers={"X-Request-Id": "chosen"})
    ids = [record.request_id for record in lines(caplog, "request completed")]
    assert len(set(ids)) == 3
    assert {UUID(request_id).version for request_id in ids} == {4}


def test_the_id_can_come_from_a_header(api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> None:
    auth_config(api={"request_id_header": "X-Request-Id"})
    with caplog.at_level(logging.INFO):
        api.get("/settings", headers={"x-request-id": "abc"})
        api.get("/settings")
    first, second = lines(caplog, "request completed")
    assert first.request_id == "abc"
    assert not hasattr(second, "request_id")


def test_the_audit_log_line_contains_the_id(
    api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(api={"request_id_header": "X-Request-Id"})
    make_user(email="user@example.com")
    body = {"email": "user@example.com", "password": PASSWORD}
    headers = {"X-Request-Id": "abc", "User-Agent": "tests"}
    with caplog.at_level(logging.INFO):
        assert api.post("/token?grant_type=password", body, headers=headers).status_code == 200
    (line,) = lines(caplog, "audit_event")
    event = line.auth_audit_event
    assert (event["request_id"], event["user_agent"], event["ip_address"]) == ("abc", "tests", "127.0.0.1")
    assert (event["action"], event["traits"]) == ("login", {"provider": "email"})
    at = datetime.fromisoformat(event["created_at"])
    identifier = UUID(event["audit_log_id"])
    assert (identifier.version, identifier.int >> 80) == (7, int(at.timestamp() * 1000))
    assert event["created_at"].endswith("Z")


@pytest.mark.parametrize(("header", "has_id"), [("abc", True), ("", False)])
def test_unexpected_errors_contain_the_id(api: Api, auth_config: ChangeConfig, header: str, has_id: bool) -> None:
    made = make_session()
    auth_config(api={"request_id_header": "X-Request-Id"}, jwt={"keys": ({"kty": "oct"},)})
    response = api.get("/user", bearer=made.access_token, headers={"X-Request-Id": header})
    assert response.status_code == 500
    assert response.json().get("error_id") == ("abc" if has_id else None)
    versioned = {"X-Request-Id": header, "X-Supabase-Api-Version": "2024-01-01"}
    assert set(api.get("/user", bearer=made.access_token, headers=versioned).json()) == {"code", "message"}


def test_other_errors_contain_no_id(api: Api) -> None:
    for response in (api.get("/nope"), api.get("/user"), api.post("/signup", "{")):
        assert "error_id" not in response.json()


def test_no_response_header_contains_the_id(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"request_id_header": "X-Request-Id"})
    response = api.get("/settings", headers={"X-Request-Id": "abc"})
    assert "abc" not in "".join(response.headers.values())

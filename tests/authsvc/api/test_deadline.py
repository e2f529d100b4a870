"""The time limit of a request: a late response is replaced by a timeout error."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from authsvc.conf import AuthConfig
from authsvc.observability.arrival import ARRIVED
from tests.conftest import Api
from tests.factories import PASSWORD, make_one_time_token, make_user
from tests.observations import assert_error

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

TEXT = "Processing this request timed out, please retry after a moment."
AT_ONCE = {"max_request_duration": timedelta(microseconds=1)}


def test_a_late_response_becomes_a_timeout(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api=AT_ONCE)
    response = api.get("/settings")
    assert_error(response, 504, "request_timeout", TEXT, error_id=response.json()["error_id"])
    assert response.headers["Cache-Control"] == "no-store"


def test_a_timeout_has_both_formats_and_cors_headers(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api=AT_ONCE)
    headers = {"X-Supabase-Api-Version": "2024-01-01", "Origin": "https://app.dev"}
    response = api.get("/settings", headers=headers)
    assert (response.status_code, response.json()) == (504, {"code": "request_timeout", "message": TEXT})
    assert response.headers["X-Supabase-Api-Version"] == "2024-01-01"
    assert response.headers["Access-Control-Allow-Origin"] == "*"


def test_a_late_redirect_becomes_a_json_error(api: Api, auth_config: ChangeConfig) -> None:
    token = make_one_time_token(make_user()).link_token
    auth_config(api=AT_ONCE)
    response = api.get(f"/verify?type=recovery&token={token}")
    assert (response.status_code, response.json()["error_code"]) == (504, "request_timeout")
    assert "Location" not in response.headers


def test_a_timeout_contains_no_token(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email="user@example.com")
    auth_config(api=AT_ONCE)
    response = api.post("/token?grant_type=password", {"email": "user@example.com", "password": PASSWORD})
    assert response.status_code == 504
    assert "token" not in response.content.decode().replace("request_timeout", "")


def test_a_timeout_is_logged_as_an_error(api: Api, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> None:
    auth_config(api=AT_ONCE)
    with caplog.at_level(logging.INFO):
        api.get("/settings")
    (line,) = [record for record in caplog.records if record.name == "authsvc.api"]
    assert (line.levelno, line.status, line.error_code) == (logging.ERROR, 504, "request_timeout")  # type: ignore[attr-defined]


@pytest.mark.parametrize("limit", [timedelta(0), timedelta(seconds=-1), timedelta(seconds=10)])
def test_timely_responses_are_unchanged(api: Api, auth_config: ChangeConfig, limit: timedelta) -> None:
    auth_config(api={"max_request_duration": limit})
    assert api.get("/settings").status_code == 200


def test_changes_committed_before_the_timeout_remain(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api=AT_ONCE)
    assert api.post("/signup", {"email": "user@example.com", "password": PASSWORD}).status_code == 504
    assert User.objects.filter(email="user@example.com").exists()


def test_a_request_that_has_waited_too_long_is_not_executed(caplog: pytest.LogCaptureFixture) -> None:
    body = {"email": "user@example.com", "password": PASSWORD}
    environ: dict[str, Any] = {ARRIVED: time.monotonic() - 6}
    response = Client().post("/signup", body, content_type="application/json", **environ)
    assert (response.status_code, response.json()["error_code"]) == (504, "request_timeout")
    assert not User.objects.exists()
    (line,) = [record for record in caplog.records if record.name == "authsvc.api"]
    assert vars(line)["duration"] >= 6e9

"""Hints in error responses: where the message alone misleads, and only on servers with the API page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.accounts.administration import admin_requests
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user

pytestmark = pytest.mark.django_db

REQUESTS: list[Any] = [
    ("POST", "/token", {}, "unsupported_grant_type", "POST /token?grant_type=password"),
    ("POST", "/token?grant_type=foo", {}, "unsupported_grant_type", "refresh_token, pkce or id_token"),
    ("POST", "/token?grant_type=refresh_token", {}, "Refresh token is not valid", '{"refresh_token": "…"}'),
    ("POST", "/signup", {}, "Anonymous sign-ins are disabled", "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED"),
    ("GET", "/admin/users/ada@example.com", None, "user_id must be an UUID", "not an email or phone"),
    ("GET", "/admin/users?per_page=ten", None, 'parsing "ten": invalid syntax', "per_page=50"),
]


@pytest.mark.parametrize(("method", "path", "body", "message", "hint"), REQUESTS)
@pytest.mark.parametrize("enabled_by", ["docs", "inbox"])
def test_a_hint_names_the_remedy(
    enabled_by: str, method: str, path: str, body: Any, message: str, hint: str, api: Api, auth_config: ChangeConfig
) -> None:
    before = admin_requests.ask(api, method, path, body).json()
    if enabled_by == "docs":
        auth_config(api={"docs_enabled": True})
    else:
        auth_config(mailer={"dev_inbox_enabled": True})
    shown = admin_requests.ask(api, method, path, body).json()
    assert hint in shown.pop("hint")
    assert shown == before
    assert message in shown["msg"]


def test_the_hint_of_a_ban_duration(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"docs_enabled": True})
    user = make_user()
    shown = admin_requests.ask(api, "PUT", f"/admin/users/{user.id}", {"ban_duration": "2d"}).json()
    assert shown["msg"] == 'invalid format for ban duration: time: unknown unit "d" in duration "2d"'
    assert "24h" in shown["hint"]


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [("DELETE", "/factors/x", "GET /user"), ("DELETE", "/user/identities/x", "`identity_id`")],
)
def test_the_hint_of_a_malformed_id(method: str, path: str, hint: str, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"docs_enabled": True}, signup={"manual_linking_enabled": True})
    shown = api.request(method, path, bearer=make_session(make_user()).access_token).json()
    assert (shown["code"], shown["error_code"], hint in shown["hint"]) == (404, "validation_failed", True)


def test_both_formats_have_the_hint(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"docs_enabled": True})
    headers = {"X-Supabase-Api-Version": "2024-01-01"}
    shown = api.post("/token", {}, headers=headers).json()
    assert shown.pop("hint") == api.post("/token", {}).json()["hint"]
    assert shown == {"code": "invalid_credentials", "message": "unsupported_grant_type"}


def test_other_errors_have_no_hint(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"docs_enabled": True})
    assert set(api.get("/user").json()) == {"code", "error_code", "msg"}

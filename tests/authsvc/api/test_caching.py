"""Cache headers: keys and discovery for ten minutes, personal responses not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from authsvc.conf import AuthConfig
from tests.conftest import Api
from tests.factories import CHALLENGE, PASSWORD, VERIFIER, make_flow, make_one_time_token, make_session, make_user
from tokens.models import TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
ADDRESS = {"email": EMAIL}


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("/health", "no-cache"),
        ("/settings", "no-cache"),
        ("/.well-known/jwks.json", "public, max-age=600"),
        ("/.well-known/openid-configuration", "public, max-age=600"),
    ],
)
@pytest.mark.parametrize("slash", ["", "/"])
def test_public_responses_have_a_cache_lifetime(api: Api, path: str, cache: str, slash: str) -> None:
    response = api.get(path + slash)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, cache)


def test_personal_responses_are_not_stored(api: Api, auth_config: ChangeConfig) -> None:
    user = make_user(email=EMAIL)
    made = make_session(user)
    flow = make_flow(user)
    unconfirmed = make_user(confirmed=False)
    by_link = make_one_time_token(user)
    by_post = make_one_time_token(unconfirmed, TokenType.CONFIRMATION)
    auth_config(signup={"anonymous_enabled": True})
    requests: list[tuple[str, str, Any, int]] = [
        ("POST", "/signup", {"email": "new@example.com", "password": PASSWORD}, 200),
        ("POST", "/signup", {**ADDRESS, "password": PASSWORD}, 200),
        ("POST", "/signup", {}, 200),
        ("POST", "/token?grant_type=password", {**ADDRESS, "password": PASSWORD}, 200),
        ("POST", "/token?grant_type=refresh_token", {"refresh_token": made.refresh_token}, 200),
        ("POST", "/token?grant_type=pkce", {"auth_code": flow.auth_code, "code_verifier": VERIFIER}, 200),
        ("GET", f"/verify?type=recovery&token={by_link.link_token}", None, 303),
        ("GET", "/verify?type=recovery&token=x", None, 303),
        ("POST", "/verify", {"type": "signup", "token_hash": by_post.link_token}, 200),
        ("POST", "/recover", {**ADDRESS, "code_challenge": CHALLENGE, "code_challenge_method": "s256"}, 200),
        ("POST", "/otp", {"email": "otp@example.com"}, 200),
        ("POST", "/magiclink", {"email": "magic@example.com"}, 200),
        ("POST", "/resend", {"type": "signup", "email": "nobody@example.com"}, 200),
        ("GET", "/user", None, 200),
        ("POST", "/logout?scope=others", None, 204),
    ]
    for method, path, body, status in requests:
        response = api.request(method, path, body, bearer=made.access_token)
        assert response.status_code == status, (path, response.content)
        assert response.headers["Cache-Control"] == "no-store", path
        assert "Set-Cookie" not in response.headers
        assert "ETag" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nope", None, 404),
        ("DELETE", "/health", None, 405),
        ("POST", "/.well-known/jwks.json", None, 405),
        ("POST", "/signup", b"{", 400),
        ("POST", "/signup", b" " * 1_100_000, 413),
        ("POST", "/token", b"{}", 400),
        ("POST", "/token?grant_type=password", {**ADDRESS, "password": "x"}, 400),
        ("GET", "/verify", None, 400),
        ("POST", "/verify", {"type": "email", **ADDRESS, "token": "1"}, 403),
        ("GET", "/user", None, 401),
        ("POST", "/logout", None, 401),
        ("POST", "/otp", {**ADDRESS, "create_user": False}, 422),
    ],
)
def test_errors_are_not_stored(api: Api, method: str, path: str, body: Any, status: int) -> None:
    response = api.request(method, path, body)
    assert (response.status_code, response.headers["Cache-Control"]) == (status, "no-store")


@pytest.mark.usefixtures("slow_refill")
def test_rate_limit_errors_are_not_stored(api: Api) -> None:
    for _ in range(31):
        response = api.post("/otp", b"{")
    assert (response.status_code, response.headers["Cache-Control"]) == (429, "no-store")

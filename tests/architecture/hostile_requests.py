"""Endpoints that read a body, and requests to them with hostile input."""

from __future__ import annotations

from typing import Any

from tests.conftest import Api, ApiResponse

EMAIL = "user@example.com"
TEXT, OBJECT, FLAG = "text", "object", "flag"
PKCE_KEYS = {"code_challenge": TEXT, "code_challenge_method": TEXT}
BODIES: dict[str, dict[str, str]] = {
    "/signup": {"email": TEXT, "phone": TEXT, "password": TEXT, "data": OBJECT, "channel": TEXT, **PKCE_KEYS},
    "/token?grant_type=password": {"email": TEXT, "phone": TEXT, "password": TEXT},
    "/token?grant_type=refresh_token": {"refresh_token": TEXT},
    "/token?grant_type=pkce": {"auth_code": TEXT, "code_verifier": TEXT},
    "/verify": {
        "type": TEXT, "token": TEXT, "token_hash": TEXT, "email": TEXT, "phone": TEXT, "redirect_to": TEXT,
        "password": TEXT,
    },
    "/otp": {"email": TEXT, "phone": TEXT, "create_user": FLAG, "data": OBJECT, "channel": TEXT, **PKCE_KEYS},
    "/magiclink": {"email": TEXT, "data": OBJECT, **PKCE_KEYS},
    "/recover": {"email": TEXT, **PKCE_KEYS},
    "/resend": {"type": TEXT, "email": TEXT, "phone": TEXT, **PKCE_KEYS},
    "/passkeys/authentication/verify": {"challenge_id": TEXT},
}  # fmt: skip
"""Endpoints that read a body → the keys that they accept."""
BEARER = [("GET", "/user"), ("POST", "/logout")]


def post(path: str, body: Any, **options: Any) -> ApiResponse:
    return Api().post(path, body, **options)


def assert_documented(response: ApiResponse, *statuses: int) -> dict[str, Any]:
    """Return the body of an error response after checking its format."""
    assert response.status_code in (statuses or range(400, 500)), (response.status_code, response.content[:300])
    error: dict[str, Any] = response.json()
    assert list(error)[:3] == ["code", "error_code", "msg"]
    assert error["code"] == response.status_code
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert "\n" not in "".join(response.headers.values())
    return error

"""Requests that redeem links and codes, and their responses."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from django.utils import timezone

from tests.conftest import Api, ApiResponse, read_success
from tests.factories import PASSWORD
from tests.observations import redirect_fragment, redirect_query
from tokens.jwt import access_tokens
from tokens.models import TokenType

EMAIL = "user@example.com"
SITE = "http://localhost:3000"
SIGN_UP = {"email": EMAIL, "password": PASSWORD}
SIGNED_UP = ("user_signedup", {"provider": "email"})
LOGIN = ("login", None)
LINK_DEAD = (403, "otp_expired", "Email link is invalid or has expired")
BANNED = (403, "user_banned", "User is banned")
SESSION_KEYS = ["access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"]
CONFIRMING = ["signup", "invite"]
RECOVERING = ["recovery", "magiclink"]
PURPOSE = {
    "signup": TokenType.CONFIRMATION,
    "invite": TokenType.CONFIRMATION,
    "recovery": TokenType.RECOVERY,
    "magiclink": TokenType.RECOVERY,
}


def open_link(api: Api, token: str, type: str, redirect_to: str = "", **options: Any) -> ApiResponse:
    """Open a link as a browser does."""
    target = f"&redirect_to={quote(redirect_to, safe='')}" if redirect_to else ""
    return api.get(f"/verify?token={token}&type={type}{target}", **options)


def assert_link_error(
    response: ApiResponse, error_code: str, description: str, *, error: str | None = "access_denied"
) -> None:
    """Assert a redirect to the site that tells of this refusal in its fragment, and only there."""
    assert response.status_code == 303
    parameters = {"error_code": error_code, "error_description": description, "sb": ""}
    assert redirect_fragment(response) == ({"error": error, **parameters} if error else parameters)
    assert response.headers["Location"].startswith(f"{SITE}#")
    assert redirect_query(response) == {}
    assert response.content == b""


def session_fragment(response: ApiResponse, type: str) -> dict[str, str]:
    """The fragment of a redirect that carries a session."""
    assert response.status_code == 303, response.content
    fragment = redirect_fragment(response)
    assert list(fragment) == ["access_token", "expires_at", "expires_in", "refresh_token", "sb", "token_type", "type"]
    assert (fragment["expires_in"], fragment["sb"], fragment["token_type"]) == ("3600", "", "bearer")
    assert fragment["type"] == type
    claims = access_tokens.decode(fragment["access_token"], at=timezone.now())
    assert str(claims.exp) == fragment["expires_at"] + ".0"
    assert [entry.method for entry in claims.amr] == ["otp"]
    assert response.headers["Cache-Control"] == "no-store"
    assert "Content-Type" not in response.headers
    return fragment


def read_session(response: ApiResponse, type: str | None) -> dict[str, Any]:
    """The session of a response that is one, and of this type."""
    session = read_success(response)
    assert list(session) == SESSION_KEYS + (["type"] if type else [])
    assert session.get("type") == type
    return session

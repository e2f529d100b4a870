"""Requests of sign-up, and their responses."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from tests.conftest import ApiResponse, read_success
from tests.factories import PASSWORD
from tokens.jwt import access_tokens

EMAIL = "user@example.com"
PHONE = "15551234567"
SIGN_UP = {"email": EMAIL, "password": PASSWORD}
USER_KEYS = [
    "id", "aud", "role", "email", "phone", "confirmation_sent_at", "app_metadata", "user_metadata", "identities",
    "created_at", "updated_at", "is_anonymous",
]  # fmt: skip


def read_session(response: ApiResponse) -> dict[str, Any]:
    """The session of a response that is one."""
    session = read_success(response)
    assert list(session) == ["access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"]
    assert (session["token_type"], session["expires_in"]) == ("bearer", 3600)
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert (claims.exp, claims.sub) == (session["expires_at"], session["user"]["id"])
    return session

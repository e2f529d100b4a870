"""Requests that change the account of the user."""

from __future__ import annotations

from typing import Any

from tests.conftest import Api, ApiResponse
from tests.factories import SignIn

EMAIL = "user@example.com"
PHONE = "15551234567"
NEW_PASSWORD = "another horse battery"
MODIFIED = ("user_modified", None)
UPDATED_PASSWORD = ("user_updated_password", None)
TOO_SHORT = "Password should be at least 6 characters."
CURRENT_PASSWORD = "Current password required when setting new password."


def put(api: Api, made: SignIn, body: Any, **current: Any) -> ApiResponse:
    return api.put("/user", body, bearer=made.access_token, **current)


def sign_in(api: Api, password: str, **user: str) -> int:
    return api.post("/token?grant_type=password", {"password": password, **(user or {"email": EMAIL})}).status_code

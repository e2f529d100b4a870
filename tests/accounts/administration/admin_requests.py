"""Requests of administrators, for the tests of administration."""

from __future__ import annotations

from typing import Any

import jwt
from django.conf import settings

from tests.conftest import Api, ApiResponse, read_success

NOT_ADMIN = (403, "not_admin", "User not allowed")
USER_NOT_FOUND = (404, "user_not_found", "User not found")
EMAIL_EXISTS = (422, "email_exists", "A user with this email address has already been registered")
PHONE_EXISTS = (422, "phone_exists", "Phone number already registered by another user")


def token(role: str = "service_role", *, secret: str | None = None, **claims: Any) -> str:
    """The token of a service, signed with the secret it shares with this one."""
    key = settings.AUTH.jwt.secret.reveal() if secret is None else secret
    return jwt.encode({"role": role, **claims}, key, algorithm="HS256")


def ask(api: Api, method: str, path: str, body: Any = None, **options: Any) -> ApiResponse:
    return api.request(method, path, body, bearer=token(), **options)


def expect_success(api: Api, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The body of a response that must be a success."""
    return read_success(ask(api, method, path, body, **options))


def can_sign_in(api: Api, password: str, **identifier: str) -> bool:
    return api.post("/token?grant_type=password", {**identifier, "password": password}).status_code == 200

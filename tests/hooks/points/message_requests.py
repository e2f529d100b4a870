"""Requests that send messages."""

from __future__ import annotations

from typing import Any

from accounts.models import User
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD, make_session, make_user

EMAIL, NEW, PHONE = "user@example.com", "new@example.com", "15551234567"


def change_email(api: Api, *, confirmed: bool = True) -> User:
    user = make_user(email=EMAIL, confirmed=confirmed)
    response = api.put("/user", {"email": NEW}, bearer=make_session(user).access_token)
    assert response.status_code == 200, response.content
    return user


def sign_up(api: Api, **body: Any) -> ApiResponse:
    return api.post("/signup", {"email": EMAIL, "password": PASSWORD, **body})

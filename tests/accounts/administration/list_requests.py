"""Lists of users, and their pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from accounts.models import User
from tests.accounts.administration.admin_requests import ask, expect_success
from tests.conftest import Api

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_users(number: int, **columns: Any) -> list[str]:
    """The ids of that many users, oldest first, one second apart."""
    at = START + timedelta(days=1)
    made = [
        User(
            id=uuid4(),
            aud="authenticated",
            email=f"user{index}@example.com",
            created_at=at + timedelta(seconds=index),
            updated_at=at,
            raw_user_meta_data={},
            raw_app_meta_data={},
            **columns,
        )
        for index in range(number)
    ]
    User.objects.bulk_create(made)
    return [str(user.id) for user in made]


def ids(api: Api, query: str = "") -> list[str]:
    return [user["id"] for user in expect_success(api, "GET", f"/admin/users{query}")["users"]]


def read_list_headers(api: Api, query: str = "") -> tuple[str, str]:
    response = ask(api, "GET", f"/admin/users{query}")
    assert response.status_code == 200, response.content
    return response.headers["Link"], response.headers["X-Total-Count"]


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def make_users_without_times() -> list[UUID]:
    """The ids of ten users, oldest first; the times of some of them are not known, which makes them the latest."""
    made = [UUID(user_id) for user_id in make_users(10)]
    User.objects.filter(id__in=made[::2]).update(created_at=None, updated_at=None)
    return [*made[1::2], *sorted(made[::2])]

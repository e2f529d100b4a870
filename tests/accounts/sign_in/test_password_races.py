"""Concurrent password sign-ins."""

from __future__ import annotations

import time

import pytest

from accounts.models import User
from tests import factories
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ApiResponse

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


def test_rehash_at_sign_in_does_not_overwrite_a_concurrent_password_change(api: Api) -> None:
    user = factories.make_user()
    imported_hash = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # the password "test"
    for _ in range(5):
        User.objects.update(password=imported_hash)

        def change_password() -> ApiResponse:
            time.sleep(0.015)
            User.objects.update(password=user.password)
            return api.get("/health")

        run_concurrently(
            lambda: api.post("/token?grant_type=password", {"email": user.email, "password": "test"}), change_password
        )

        assert User.objects.get().password == user.password


def test_concurrent_sign_ins_with_imported_hash_succeed(api: Api) -> None:
    imported_hash = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # the password "test"
    user = factories.make_user(password_hash=imported_hash)
    credentials = {"email": user.email, "password": "test"}

    responses = run_concurrently(*[lambda: api.post("/token?grant_type=password", credentials)] * 12)

    assert status_counts(responses) == {200: 12}
    user.refresh_from_db()
    assert (user.password or "").startswith("$argon2id$")

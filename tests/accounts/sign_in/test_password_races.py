"""Concurrent password sign-ins."""

from __future__ import annotations

import time

import pytest

from accounts.models import User
from tests import factories
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Answer, Api

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


def test_a_sign_in_that_renews_an_imported_hash_does_not_bring_an_old_password_back(api: Api) -> None:
    user = factories.make_user()
    imported = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # of "test"
    for _ in range(5):
        User.objects.update(password=imported)

        def change() -> Answer:
            time.sleep(0.015)
            User.objects.update(password=user.password)
            return api.get("/health")

        run_concurrently(
            lambda: api.post("/token?grant_type=password", {"email": user.email, "password": "test"}), change
        )

        assert User.objects.get().password == user.password


def test_many_sign_ins_by_an_imported_hash_all_succeed(api: Api) -> None:
    imported = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # of "test"
    user = factories.make_user(password_hash=imported)
    credentials = {"email": user.email, "password": "test"}

    answers = run_concurrently(*[lambda: api.post("/token?grant_type=password", credentials)] * 12)

    assert status_counts(answers) == {200: 12}
    user.refresh_from_db()
    assert (user.password or "").startswith("$argon2id$")

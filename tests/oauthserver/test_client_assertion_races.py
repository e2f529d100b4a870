"""Concurrent uses of one client assertion."""

from __future__ import annotations

import pytest

from tests.concurrency import run_concurrently
from tests.conftest import Api
from tests.oauthserver.client_keys import assertion, post
from tests.oauthserver.test_client_assertions import register

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_many_parallel_uses_one_is_accepted(api: Api) -> None:
    token = assertion(register(api).client_id)
    responses = run_concurrently(*[lambda: post(token)] * 20)
    assert sorted(response.json()["error"] for response in responses) == ["invalid_client"] * 19 + ["invalid_request"]

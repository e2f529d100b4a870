"""Concurrent uses of one pushed authorization request."""

from __future__ import annotations

import pytest

from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api
from tests.oauthserver.client_application import (
    register,
)  # fmt: skip
from tests.oauthserver.test_pushed_requests import begin, push_request

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_many_parallel_uses_one_starts_the_request(api: Api) -> None:
    client = register(api)
    request_uri = push_request(client)
    responses = run_concurrently(*[lambda: begin(api, client.client_id, request_uri)] * 20)
    assert status_counts(responses) == {302: 1, 400: 19}

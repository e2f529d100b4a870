"""Concurrent polls and decisions of a device code."""

from __future__ import annotations

import pytest

from oauthserver.errors import DeviceCodeNotFound
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session
from tests.oauthserver.device_requests import approve, decide, find, poll, start, television

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})


def test_a_device_code_gives_one_session(api: Api) -> None:
    application = television(api)
    started = start(application)
    approve(started, make_session())

    responses = run_concurrently(*[lambda: poll(application, started)] * 20)

    assert status_counts(responses) == {200: 1, 400: 19}
    assert {response.json()["error"] for response in responses if response.status_code == 400} == {"invalid_grant"}


def test_a_request_is_decided_once(api: Api) -> None:
    application, session = television(api), make_session()
    started = start(application)
    find(started, session)

    def attempt(*, approves: bool) -> str:
        try:
            decide(started, session, approves=approves)
        except DeviceCodeNotFound:
            return "too late"
        return "decided"

    results = run_concurrently(*(lambda approves=number % 2 == 0: attempt(approves=approves) for number in range(8)))

    assert sorted(results) == ["decided", *["too late"] * 7]

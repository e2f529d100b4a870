"""Metrics and log lines of a sign-in whose transaction fails at commit: only the failure is recorded."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from responses import RequestsMock

from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import PASSWORD
from tests.fakes.http_peer import MockedServer
from tests.oauthproviders.browser import SITE, Browser, GitHub, provider_settings
from tests.recorded_metrics import RecordedMetrics
from tokens.models import Session

pytestmark = pytest.mark.django_db


@contextlib.contextmanager
def failing_commits() -> Iterator[None]:
    """A deferred trigger rejects each new session when its transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
        )
        cursor.execute(
            "CREATE CONSTRAINT TRIGGER reject AFTER INSERT ON sessions DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION reject()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION reject CASCADE")


def sign_up(api: Api) -> ApiResponse:
    return api.post("/signup", {"email": "new@example.com", "password": PASSWORD})


def sign_in_with_provider(_: Api) -> ApiResponse:
    return Browser().sign_in()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("call", "method", "failures"),
    [
        pytest.param(sign_up, "password", [], id="sign-up"),
        pytest.param(sign_in_with_provider, "oauth", [("oauth", "failed")], id="callback"),
    ],
)
def test_sign_in_is_recorded_after_commit_only(
    call: Callable[[Api], ApiResponse],
    method: str,
    failures: list[tuple[str, ...]],
    api: Api,
    auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
    recorded: RecordedMetrics,
    mocked_requests: RequestsMock,
) -> None:
    caplog.set_level(logging.INFO, "tokens.sessions.sign_in_metrics")

    def sign_ins() -> dict[tuple[str, ...], float]:
        return recorded.changes("auth_sign_ins_total", "method", "outcome")

    def log_messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "tokens.sessions.sign_in_metrics"]

    server = MockedServer(mocked_requests, url="https://github.example.com")
    GitHub(server)
    auth_config(
        site={"url": SITE},
        providers={"github": provider_settings(url=server.url)},
        mailer={"autoconfirm": True},
    )
    with failing_commits():
        call(api)
    assert (Session.objects.count(), sign_ins(), log_messages()) == (0, dict.fromkeys(failures, 1), [])
    call(api)
    assert (Session.objects.count(), sign_ins(), log_messages()) == (
        1,
        dict.fromkeys([*failures, (method, "succeeded")], 1),
        ["Login"],
    )

"""What is told of a sign-in whose transaction is undone at its very end: that it failed, and nothing else."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from tests.conftest import Answer, Api, ChangeConfig
from tests.factories import PASSWORD
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.browser import SITE, Browser, GitHub, provider_settings
from tests.recorded_metrics import RecordedMetrics
from tokens.models import Session

pytestmark = pytest.mark.django_db


@contextlib.contextmanager
def commits_failing() -> Iterator[None]:
    """An operator's trigger refuses every new session when its transaction is to be kept."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
        )
        cursor.execute(
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON sessions DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse CASCADE")


def sign_up(api: Api) -> Answer:
    return api.post("/signup", {"email": "new@example.com", "password": PASSWORD})


def come_back(_: Api) -> Answer:
    return Browser().sign_in()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("call", "method", "refusals"),
    [
        pytest.param(sign_up, "password", [], id="sign-up"),
        pytest.param(come_back, "oauth", [("oauth", "failed")], id="callback"),
    ],
)
def test_a_sign_in_is_told_of_once_it_is_kept(
    call: Callable[[Api], Answer],
    method: str,
    refusals: list[tuple[str, ...]],
    api: Api,
    auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
    recorded: RecordedMetrics,
) -> None:
    caplog.set_level(logging.INFO, "tokens.sessions.sign_in_metrics")

    def sign_ins() -> dict[tuple[str, ...], float]:
        return recorded.changes("auth_sign_ins_total", "method", "outcome")

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "tokens.sessions.sign_in_metrics"]

    with HttpPeer() as peer:
        GitHub(peer)
        auth_config(
            site={"url": SITE},
            providers={"github": provider_settings(url=peer.url)},
            mailer={"autoconfirm": True},
        )
        with commits_failing():
            call(api)
        assert (Session.objects.count(), sign_ins(), lines()) == (0, dict.fromkeys(refusals, 1), [])
        call(api)
        assert (Session.objects.count(), sign_ins(), lines()) == (
            1,
            dict.fromkeys([*refusals, (method, "succeeded")], 1),
            ["Login"],
        )

"""Requests beside tokens that wait for the hook: a process with few slots, and refreshes of one session."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connections

from accounts.models import User
from authsvc.conf.sections.hooks import Hook
from authsvc.server.request_slots import RequestSlots
from tests import factories
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD
from tests.fakes.http_peer import HttpPeer
from tests.fakes.http_peer import Response as PeerResponse
from tests.hooks.conftest import SetHook
from tests.tokens.token_requests import error_of
from tokens.models import Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]

HOOK = Hook.CUSTOM_ACCESS_TOKEN
SECONDS = 30


class Process:
    """A server process with two slots, which answers each request in a thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.slots = RequestSlots(2)
        self._threads = threads

    def submit(self, method: str, path: str, body: object = None, **options: object) -> Future[ApiResponse]:
        return self._threads.submit(self._respond, method, path, body, options)

    def sign_in(self, user: User) -> Future[ApiResponse]:
        return self.submit("POST", "/token?grant_type=password", {"email": user.email, "password": PASSWORD})

    def _respond(self, method: str, path: str, body: object, options: dict[str, object]) -> ApiResponse:
        with self.slots.hold():
            return Api().request(method, path, body, **options)  # type: ignore[arg-type]


@pytest.fixture
def process() -> Iterator[Process]:
    with ThreadPoolExecutor(16) as threads:
        running = Process(threads)
        yield running
    running.slots.resize(0)
    connections.close_all()


@pytest.fixture
def released(peer: HttpPeer) -> Iterator[threading.Event]:
    """The receiver refuses each token, as soon as the event is set."""
    event = threading.Event()
    body = b'{"error": {"http_code": 403, "message": "not today"}}'
    peer.respond(
        PeerResponse(headers={"Content-Type": "application/json"}, body=body, before=lambda: event.wait(SECONDS))
    )
    yield event
    event.set()


def test_other_requests_run_while_many_sign_ins_wait(
    process: Process, peer: HttpPeer, released: threading.Event, set_hook: SetHook
) -> None:
    token = factories.make_session().access_token
    other, *users = [factories.make_user() for _ in range(9)]
    set_hook(HOOK, uri=peer.url)
    waiting = [process.sign_in(user) for user in users]
    peer.wait_for_requests(1)

    for _ in range(8):
        assert process.submit("GET", "/user", bearer=token).result(SECONDS).status_code == 200
    assert process.submit("POST", "/recover", {"email": other.email}).result(SECONDS).status_code == 200
    # One slot waits for the hook, with its transaction; the other sign-ins hold none.
    assert len(peer.received) == 1
    assert not any(future.done() for future in waiting)

    released.set()
    assert {error_of(future.result(SECONDS)) for future in waiting} == {(403, "unknown", "not today")}
    assert len(peer.received) == 8
    assert not Session.objects.filter(user__in=users).exists()


@pytest.mark.usefixtures("released")
def test_sign_ins_that_wait_too_long_get_the_error_of_the_hook(
    process: Process, peer: HttpPeer, set_hook: SetHook
) -> None:
    users = [factories.make_user() for _ in range(4)]
    set_hook(HOOK, uri=peer.url, timeout=timedelta(milliseconds=200))
    waiting = [process.sign_in(user) for user in users]
    expected = (422, "hook_timeout", "Failed to reach hook within maximum time of 0.200000 seconds")
    assert {error_of(future.result(SECONDS)) for future in waiting} == {expected}
    assert not Session.objects.exists()


def test_a_refresh_beside_one_that_waits_for_the_hook_gets_its_error(
    process: Process,
    peer: HttpPeer,
    released: threading.Event,
    set_hook: SetHook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A clock that runs a second per reading: a refresh waits for at most five readings.
    readings = itertools.count()
    monkeypatch.setattr("tokens.sessions.refresh.time", SimpleNamespace(monotonic=readings.__next__))
    signed_in = factories.make_session()
    set_hook(HOOK, uri=peer.url)
    process.slots.resize(4)
    body = {"refresh_token": signed_in.refresh_token}
    first = process.submit("POST", "/token?grant_type=refresh_token", body)
    peer.wait_for_requests(1)

    others = [process.submit("POST", "/token?grant_type=refresh_token", body) for _ in range(6)]
    assert {error_of(future.result(SECONDS))[:2] for future in others} == {(409, "conflict")}
    assert len(peer.received) == 1

    released.set()
    assert error_of(first.result(SECONDS)) == (403, "unknown", "not today")
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == 0

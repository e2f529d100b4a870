"""One deadline per call: it covers configuration, token requests, delays and retries."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from catalogclient import (
    AuthManager,
    CatalogError,
    ClientClosedError,
    NetworkError,
    RequestTimeoutError,
    RetryPolicy,
    ServerError,
    Timeout,
    _call_scope,
)
from catalogclient._single_flight import SingleFlight, UnsharedError
from catalogclient.auth import PreparedRequest
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json
from tests.timeouts import wait_until

SLOW = RetryPolicy(backoff_base=60.0, backoff_max=60.0, max_retry_after=500.0)
TOKEN = "/v1/oauth/tokens"


def oauth2(peer: HttpPeer) -> Any:
    return {"type": "oauth2", "client_secret": "s", "token_url": f"{peer.url}{TOKEN}"}


def test_the_timeout_of_a_call_covers_the_configuration(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(hang=True), path="/v1/config")
    catalog = connect(config_mode="auto", retry=None, timeout=500.0)
    for call in (
        lambda: catalog.list_namespaces(timeout=0.2),
        lambda: catalog.load_config(timeout=0.2),
        lambda: list(catalog.iter_tables("a", timeout=0.2)),
        lambda: catalog.table_exists("a.t", timeout=0.2),
    ):
        with pytest.raises(RequestTimeoutError) as caught:
            call()
        assert caught.value.operation == "load_config"


def test_the_timeout_of_a_call_covers_the_token_request(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(hang=True), path=TOKEN)
    with pytest.raises(RequestTimeoutError) as caught:
        connect(auth=oauth2(peer), retry=None, timeout=500.0).list_namespaces(timeout=0.2)
    assert caught.value.operation == "get_token"


@pytest.mark.parametrize("path", ["/v1/config", TOKEN, "/v1/namespaces"])
@pytest.mark.parametrize("response", [Response(hang=True), Response(status=503, headers={"Retry-After": "100"})])
def test_the_total_timeout_covers_every_request_of_a_call(
    peer: HttpPeer, connect: Connect, path: str, response: Response
) -> None:
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(in_json({"access_token": "t"}), path=TOKEN)
    peer.respond(response, path=path)
    catalog = connect(config_mode="auto", auth=oauth2(peer), retry=SLOW, timeout=None, total_timeout=0.5)
    with pytest.raises((NetworkError, ServerError)):
        catalog.list_namespaces()


def test_the_steps_of_one_operation_share_the_deadline(peer: HttpPeer, connect: Connect) -> None:
    deadlines: list[float] = []

    class Recorder(AuthManager):
        def apply(self, request: PreparedRequest) -> None:
            scope = _call_scope.current()
            assert scope is not None
            assert scope.deadline is not None
            deadlines.append(scope.deadline)

    peer.respond(Response(status=405), in_json({"metadata": {}}))
    assert connect(auth=Recorder()).table_exists("a.t")
    assert len(deadlines) == 2
    assert deadlines[0] == deadlines[1]


@pytest.mark.parametrize("path", ["/v1/config", TOKEN, "/v1/namespaces"])
def test_closing_ends_every_delay(peer: HttpPeer, connect: Connect, path: str) -> None:
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(in_json({"access_token": "t"}), path=TOKEN)
    peer.respond(Response(status=503), path=path)
    catalog = connect(config_mode="auto", auth=oauth2(peer), retry=SLOW)
    errors: list[CatalogError] = []

    def call() -> None:
        try:
            catalog.list_namespaces()
        except CatalogError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: any(request.path == path for request in peer.received), f"a request to {path}")
    catalog.close()
    thread.join(60)
    assert [type(error) for error in errors] == [ClientClosedError]


@pytest.mark.parametrize("error", [RequestTimeoutError("x", phase="total"), ClientClosedError("x"), UnsharedError()])
def test_the_deadline_of_one_caller_does_not_end_the_wait_of_another(error: Exception) -> None:
    flight: SingleFlight[int] = SingleFlight()
    leading, following, go_on = (threading.Event() for _ in range(3))

    def fail() -> int:
        leading.set()
        go_on.wait(60)
        raise error

    def lead() -> None:
        with pytest.raises(type(error)):
            flight.run(fail)

    leader = threading.Thread(target=lead)
    leader.start()
    assert leading.wait(60)
    results: list[int] = []
    # `unless` is called under the lock with which the leader ends its fetch.
    follower = threading.Thread(target=lambda: results.append(flight.run(lambda: 7, unless=following.set)))
    follower.start()
    assert following.wait(60)
    go_on.set()
    leader.join(60)
    follower.join(60)
    assert results == [7]


def test_a_caller_that_waits_for_another_has_its_own_deadline() -> None:
    flight: SingleFlight[int] = SingleFlight()
    leading, go_on = threading.Event(), threading.Event()

    def fetch() -> int:
        leading.set()
        go_on.wait(60)
        return 1

    leader = threading.Thread(target=lambda: flight.run(fetch))
    leader.start()
    leading.wait(60)
    with _call_scope.enter(Timeout(), 0.1, threading.Event()), pytest.raises(RequestTimeoutError):
        flight.run(lambda: 2)
    go_on.set()
    leader.join(60)

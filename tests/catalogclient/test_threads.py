"""Threads, forked processes and the end of the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import catalogclient
from catalogclient import ClientClosedError, RestCatalog
from catalogclient._single_flight import SingleFlight
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

SOURCES = Path(catalogclient.__file__).parents[1]


def test_sixty_four_threads_share_one_catalog(peer: HttpPeer, connect: Connect) -> None:
    config = json.dumps({"overrides": {"prefix": "p"}}).encode()
    token = json.dumps({"access_token": "t", "expires_in": 3600}).encode()
    kind = {"Content-Type": "application/json"}
    peer.respond(Response(delay=0.2, headers=kind, body=config), path="/v1/config")
    peer.respond(Response(delay=0.2, headers=kind, body=token), path="/token")
    peer.respond(in_json({"namespace": ["a"]}))
    auth: Any = {"type": "oauth2", "client_id": "i", "client_secret": "s", "token_url": "/token"}
    catalog = connect(warehouse="w", auth=auth, pool_maxsize=64)
    results: list[object] = []

    def work(number: int) -> None:
        mine = {"X-Thread": str(number)}
        results.extend(catalog.create_namespace(f"n{number}_{turn}", headers=mine) for turn in range(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 192
    paths = [request.path for request in peer.received]
    assert (paths.count("/v1/config"), paths.count("/token")) == (1, 1)
    created = [request for request in peer.received if request.path == "/v1/p/namespaces"]
    assert len({request.headers["Idempotency-Key"] for request in created}) == 192
    # Calls do not share request data.
    assert all(request.json()["namespace"][0].startswith(f"n{request.headers['X-Thread']}_") for request in created)


def test_all_waiting_callers_get_the_failure_of_a_shared_request() -> None:
    flight: SingleFlight[int] = SingleFlight()
    begun, go_on = threading.Event(), threading.Event()
    outcomes: list[object] = []

    calls: list[int] = []

    def fail() -> int:
        calls.append(1)
        begun.set()
        go_on.wait(30)
        raise ValueError("once")

    def ask() -> None:
        try:
            outcomes.append(flight.run(fail))
        except ValueError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    threads[0].start()
    begun.wait(30)
    assert flight.is_busy
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.2)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert outcomes == ["once"] * 8
    assert len(calls) == 1
    assert flight.run(lambda: 7) == 7
    assert flight.run(lambda: 1, unless=lambda: 9) == 9
    assert not flight.is_busy


def test_another_caller_repeats_the_request_of_an_interrupted_thread() -> None:
    flight: SingleFlight[int] = SingleFlight()
    begun, go_on = threading.Event(), threading.Event()
    interrupted: list[BaseException] = []

    def leave() -> int:
        begun.set()
        go_on.wait(30)
        raise KeyboardInterrupt

    def lead() -> None:
        try:
            flight.run(leave)
        except KeyboardInterrupt as error:
            interrupted.append(error)

    leading = threading.Thread(target=lead)
    leading.start()
    begun.wait(30)
    results: list[int] = []
    waiting = threading.Thread(target=lambda: results.append(flight.run(lambda: 5)))
    waiting.start()
    time.sleep(0.1)
    go_on.set()
    waiting.join(30)
    leading.join(30)
    assert results == [5]
    assert len(interrupted) == 1


def test_a_closed_catalog_raises_client_closed(connect: Connect, peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    catalog = connect(warehouse="w")
    with catalog as entered:
        assert entered is catalog
        entered.list_namespaces()
    catalog.close()
    for call in (
        catalog.list_namespaces,
        catalog.load_config,
        lambda: catalog.supports("x"),
        lambda: catalog.request("GET", "x"),
        catalog.prefix,
        lambda: next(catalog.iter_tables("a")),
        lambda: catalog.with_auth({"type": "none"}),
    ):
        with pytest.raises(ClientClosedError):
            call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_opens_its_own_connections(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    catalog = connect()
    catalog.list_namespaces()
    with warnings.catch_warnings():
        # The child process does not use the threads of the peer.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            catalog.list_namespaces(headers={"X-Child": "1"})
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    catalog.list_namespaces()
    parent, forked, again = peer.received
    assert forked.headers["X-Child"] == "1"
    assert forked.connection != parent.connection == again.connection


def in_a_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True, text=True, timeout=60, env=environment, check=False,
    )  # fmt: skip


def test_the_interpreter_exits_without_waiting(peer: HttpPeer) -> None:
    peer.respond(Response(hang=True))
    done = in_a_process(
        """
        import sys, threading, time
        from catalogclient import RestCatalog

        catalog = RestCatalog(sys.argv[1], auth={"type": "bearer", "token": "t"}, timeout=None, total_timeout=None)
        threading.Thread(target=catalog.list_namespaces, daemon=True).start()
        time.sleep(0.5)
        print("end", threading.active_count())
        """,
        peer.url,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end 2\n", "")


def test_importing_opens_no_file_and_starts_no_thread() -> None:
    done = in_a_process(
        """
        import sys, requests, threading
        seen = []
        sys.addaudithook(lambda name, arguments: seen.append((name, arguments)) if watching else None)
        watching = True
        import catalogclient
        watching = False
        bad = [event for event in seen if event[0].startswith(("socket.", "subprocess.", "os.putenv"))]
        opened = [str(event[1][0]) for event in seen if event[0] == "open" and "netrc" in str(event[1][0])]
        print(bad, opened, threading.active_count(), "botocore" in sys.modules, "rich" in sys.modules)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] [] 1 False False\n", "")


def test_an_unclosed_catalog_causes_no_warning(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    done = in_a_process(
        """
        import sys
        from catalogclient import RestCatalog

        RestCatalog(sys.argv[1]).list_namespaces()
        """,
        peer.url,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_last_sibling_closes_the_connections(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    catalog = RestCatalog(peer.url, config_mode="never")
    siblings = [catalog.with_auth({"type": "bearer", "token": str(number)}) for number in range(3)]
    catalog.close()
    for sibling in siblings:
        sibling.list_namespaces()
        sibling.close()
    assert len({request.connection for request in peer.received}) == 1

"""gunicorn as the HTTP server, started by its own command line on an empty database."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from authsvc.server import threaded_requests
from tests.fakes import http_peer
from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.processes import all_serving_processes, are_gone, descendants, serving_processes
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Gunicorn = Callable[..., servers.LiveServer]


@pytest.fixture
def gunicorn(tmp_path: Path, empty_database_url: str, mailbox: MailboxServer) -> Gunicorn:
    """`gunicorn()` is a server that has not been started, on the database of the test; `port` is free unless passed."""

    def make(port: int | None = None, **env: str) -> servers.LiveServer:
        folder = tmp_path / str(port or "first")
        folder.mkdir()
        return servers.LiveServer(
            folder=folder,
            database_url=empty_database_url,
            env=sign_ups.settings_for(mailbox) | env,
            command=servers.GUNICORN,
            port=port,
        )

    return make


def test_sign_up_works_and_running_request_finishes_after_sigterm(gunicorn: Gunicorn, mailbox: MailboxServer) -> None:
    with gunicorn() as server:
        sign_ups.sign_up_to_sign_in(server, mailbox, "ada@example.com")
        assert requests.head(f"{server.url}/no/such/page", timeout=TIMEOUT_SECONDS).status_code == 404
        assert "sent body bytes" not in server.log.read_text()

        running = sign_ups.HalfSent(server, "late@example.com")
        processes = descendants(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # gunicorn reports nothing when it receives the signal
        assert running.finish() == 200
        assert server.process.wait(TIMEOUT_SECONDS) == 0
        wait_until(lambda: are_gone(processes), "all processes to exit")
        assert "Traceback" not in server.log.read_text()

        server.launch()
        server.wait()
        mailbox.wait("late@example.com", seconds=TIMEOUT_SECONDS)


def test_killed_process_is_replaced_and_its_emails_arrive(gunicorn: Gunicorn, mailbox: MailboxServer) -> None:
    with gunicorn() as server:
        mailbox.smtp.hold = True
        addresses = [f"person{number}@example.com" for number in range(3)]
        for email in addresses:
            made = sign_ups.sign_up(server, email)
            assert made is not None
            assert made.status_code == 200
        killed = all_serving_processes(server)
        wait_until(lambda: mailbox.smtp.held == len(killed), "a running delivery in each process")
        for process in killed:
            process.kill()
        mailbox.smtp.hold = False
        for email in addresses:
            mailbox.wait(email, seconds=TIMEOUT_SECONDS)
        assert not set(serving_processes(server)) & set(killed)
    assert {len(ids) for ids in mailbox.smtp.message_ids().values()} == {1}


def test_new_processes_answer_after_sighup(gunicorn: Gunicorn) -> None:
    with gunicorn() as server:
        before = all_serving_processes(server)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: are_gone(before), "the old processes to exit")
        for _ in range(8):
            assert requests.get(f"{server.url}/health", timeout=TIMEOUT_SECONDS).status_code == 200


def test_start_fails_if_port_is_in_use(gunicorn: Gunicorn) -> None:
    with gunicorn() as server:
        second = gunicorn(server.port)
        second.launch()
        assert second.process.wait(TIMEOUT_SECONDS) == 1
        assert "http server listen failed" in second.log.read_text()


def test_other_requests_are_served_while_sign_ups_wait_for_a_hook(gunicorn: Gunicorn) -> None:
    released, started = threading.Event(), threading.Barrier(81)

    def sign_up(url: str) -> int:
        started.wait(TIMEOUT_SECONDS)
        return requests.post(f"{url}/signup", json={}, timeout=TIMEOUT_SECONDS).status_code

    with http_peer.HttpPeer() as hook, ThreadPoolExecutor(80) as pool:
        hook.respond(http_peer.Response(status=204, before=lambda: released.wait(TIMEOUT_SECONDS)))
        env = {
            "WEB_CONCURRENCY": "1",
            "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED": "true",
            "AUTH_RATE_LIMIT_ANONYMOUS_USERS": "1000000",
            "AUTH_HOOK_BEFORE_USER_CREATED_ENABLED": "true",
            "AUTH_HOOK_BEFORE_USER_CREATED_URI": f"{hook.url}/",
            "AUTH_HOOK_BEFORE_USER_CREATED_TIMEOUT": "30s",
        }
        with gunicorn(**env) as server:
            requested = [pool.submit(sign_up, server.url) for _ in range(80)]
            started.wait(TIMEOUT_SECONDS)
            hook.wait_for_requests(threaded_requests.MAX_WAITING_THREADS)
            try:
                for _ in range(20):
                    assert requests.get(f"{server.url}/settings", timeout=10).status_code == 200
            finally:
                released.set()
            statuses = Counter(future.result() for future in requested)
    assert set(statuses) == {200, 503}
    assert statuses[200] >= threaded_requests.MAX_WAITING_THREADS

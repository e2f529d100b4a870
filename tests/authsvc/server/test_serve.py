"""`manage.py serve` and gunicorn as real processes: start, migrations, limits, shutdown."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import requests
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

import authsvc
from authsvc.server import serving
from tests import ports
from tests.live import servers as live
from tests.timeouts import TIMEOUT_SECONDS, wait_until

Serve = Callable[..., live.LiveServer]


@pytest.mark.parametrize(
    ("http_server", "host", "address", "number", "whole_group"),
    [
        ("granian", "localhost", "127.0.0.1", signal.SIGTERM, False),
        ("granian", "::1", "[::1]", signal.SIGHUP, False),
        ("granian", "::", "127.0.0.1", signal.SIGINT, False),
        # Ctrl-C in a terminal and a service manager that stops a control group do the same.
        ("granian", "127.0.0.1", "127.0.0.1", signal.SIGINT, True),
        ("gunicorn", "localhost", "127.0.0.1", signal.SIGTERM, False),
        ("gunicorn", "::1", "[::1]", signal.SIGTERM, False),
        ("gunicorn", "::", "127.0.0.1", signal.SIGTERM, False),
    ],
)
def test_a_server_answers_at_its_address_and_stops(
    http_server: str, host: str, address: str, number: signal.Signals, whole_group: bool, serve: Serve
) -> None:
    """The listen address may be a name, IPv4 or IPv6."""
    running = serve(http_server, AUTH_API_HOST=host, host=address, AUTH_RELOADING_SIGNAL_ENABLED="true")
    assert requests.get(f"{running.url}/health", timeout=TIMEOUT_SECONDS).json()["name"] == "authsvc"
    assert requests.get(f"{running.url}/settings", timeout=TIMEOUT_SECONDS).ok

    running.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: running.log.read_text().count("reloader: signal ignored") == 1, "an ignored signal")
    if whole_group:
        os.killpg(running.process.pid, number)
        assert running.process.wait(TIMEOUT_SECONDS) == 0
    else:
        assert running.stop(number) == 0
    log = running.log.read_text()
    assert f"API started on: {host}:{running.port}" in log
    assert '"error":"start with --config-dir"' in log
    assert "Noop mail client being used for http://localhost:3000" in log
    assert ("received graceful shutdown signal" in log) == (http_server == "granian")
    assert "Traceback" not in log


@pytest.mark.parametrize("server", ["granian", "gunicorn"])
def test_invalid_settings_prevent_the_start(server: str, tmp_path: Path) -> None:
    env = {"AUTH_SITE_URL": "example.com", "AUTH_PASSWORD_MIN_LENGTH": "2"}
    running = live.LiveServer(folder=tmp_path, database_url="postgres://db", env=env, command=live.COMMANDS[server])
    running.launch()
    assert running.process.wait(live.START_SECONDS) == 1
    line = json.loads(running.log.read_text())
    assert (line["level"], line["msg"]) == ("fatal", "unable to load config")
    assert [problem.partition(":")[0] for problem in line["error"].splitlines()] == [
        "AUTH_SITE_URL",
        "AUTH_PASSWORD_MIN_LENGTH",
    ]


def test_two_servers_of_gunicorn_start_concurrently_on_an_empty_database(
    tmp_path: Path, empty_database_url: str
) -> None:
    servers = [
        live.LiveServer(folder=tmp_path, database_url=empty_database_url, command=live.COMMANDS["gunicorn"])
        for _ in range(2)
    ]
    for server in servers:
        server.launch()
    for server in servers:
        server.wait()

    assert [server.stop() for server in servers] == [0, 0]
    with psycopg.connect(empty_database_url) as connection:
        query = "SELECT count(*), count(DISTINCT (app, name)) FROM django_migrations"
        total, different = connection.execute(query).fetchone() or (0, 0)
    assert total == different > 0


def test_an_address_in_use_is_logged_and_prevents_the_start(tmp_path: Path, fresh_database_url: str) -> None:
    server = live.LiveServer(folder=tmp_path, database_url=fresh_database_url)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.port))
        taken.listen()
        server.launch()

        assert server.process.wait(live.START_SECONDS) == 1
    (line,) = server.log.read_text().splitlines()
    assert f"http server listen failed: port {server.port} is in use" in line


def test_runserver_names_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} is in use"):
            call_command("runserver", f"127.0.0.1:{port}")


def test_the_reason_names_a_host_that_cannot_be_used() -> None:
    assert serving.listen_problem("192.0.2.1", 8081).startswith("host 192.0.2.1, port 8081: ")
    assert serving.listen_problem("127.0.0.1", ports.free_port()) == ""


def test_sigterm_to_runserver_stops_an_embedded_database(tmp_path: Path, database_folder: Path) -> None:
    command = (str(live.PROJECT / "manage.py"), "runserver")
    with live.LiveServer(folder=tmp_path, database_url=f"embedded:{database_folder}", command=command) as running:
        assert running.stop() == 0
    assert not (database_folder / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_an_unreachable_database_is_logged_and_prevents_the_start(http_server: str, tmp_path: Path) -> None:
    url = f"postgres://u:hidden@127.0.0.1:{ports.free_port()}/auth"
    server = live.LiveServer(folder=tmp_path, database_url=url, command=live.COMMANDS[http_server])
    server.launch()

    assert server.process.wait(live.START_SECONDS) == 1
    log = server.log.read_text()
    assert "error opening database" in log
    assert "hidden" not in log


@pytest.mark.parametrize("server", ["granian", "gunicorn"])
def test_a_killed_server_leaves_no_process_on_its_port(server: str, serve: Serve) -> None:
    running = serve(http_server=server)
    running.process.kill()
    running.process.wait()

    wait_until(lambda: not ports.is_listening(running.port), "the end of the serving processes")


def test_the_version_option_prints_the_version_of_the_service() -> None:
    printed = subprocess.run(
        [sys.executable, "manage.py", "serve", "--version"],
        cwd=live.PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == authsvc.__version__


@pytest.mark.parametrize(
    ("limit", "requested", "worker", "expected"),
    [
        (0, 3, True, (3, 4)),
        (100, 3, True, (3, 4)),
        (18, 2, True, (2, 4)),
        (16, 2, True, (2, 3)),
        (12, 4, True, (2, 1)),
        (6, 2, True, (1, 1)),
        (4, 2, False, (2, 1)),
        (2, 2, False, (1, 1)),
    ],
)
def test_the_connections_of_all_threads_and_workers_stay_within_the_limit(
    auth_config: Callable[..., object], limit: int, requested: int, worker: bool, expected: tuple[int, int]
) -> None:
    auth_config(database={"max_pool_size": limit}, api={"processes": requested}, mailer={"worker_enabled": worker})
    assert (serving.processes(settings.AUTH), serving.threads(settings.AUTH)) == expected


@pytest.mark.parametrize("server", ["granian", "gunicorn"])
def test_no_completed_connection_is_reset_when_the_server_stops(server: str, serve: Serve) -> None:
    running = serve(http_server=server)
    outcomes: Counter[str] = Counter()
    has_ended = threading.Event()

    def send_requests() -> None:
        while not has_ended.is_set():
            client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT_SECONDS)
            try:
                client.connect()
            except OSError:
                time.sleep(0.02)
                continue
            try:
                client.request("GET", "/settings", headers={"Connection": "close"})
                outcomes[str(client.getresponse().status)] += 1
            except (OSError, http.client.HTTPException) as error:
                outcomes[repr(error)] += 1
            finally:
                client.close()

    client_threads = [threading.Thread(target=send_requests) for _ in range(6)]
    for client_thread in client_threads:
        client_thread.start()
    wait_until(lambda: outcomes["200"] > 50, "responses to the clients")
    assert running.stop() == 0
    has_ended.set()
    for client_thread in client_threads:
        client_thread.join()
    assert set(outcomes) == {"200"}

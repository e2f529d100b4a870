"""gunicorn as the HTTP server, by setting and by itself: as good a way in as the default."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.live import servers
from tests.live.clients.postbox import Postbox
from tests.live.robustness import conftest as robust

BY_ITSELF = ("-m", "gunicorn", "-c", str(servers.PROJECT / "gunicorn.conf.py"), "authsvc.wsgi")


def migrate(database_url: str) -> None:
    """Empty → ready, as an operator does before gunicorn is started by itself."""
    env = {**os.environ, "DATABASE_URL": database_url}
    subprocess.run([sys.executable, str(servers.PROJECT / "manage.py"), "migrate", "-v0"], env=env, check=True)


@pytest.mark.parametrize("command", [servers.SERVE, BY_ITSELF])
@pytest.mark.timeout(300)
def test_a_person_signs_up_and_in_and_a_running_request_outlives_sigterm(
    command: tuple[str, ...], tmp_path: Path, fresh_database_url: str, post: Postbox
) -> None:
    env = {**robust.settings_for(post), "AUTH_SERVER": "gunicorn"}
    if command == BY_ITSELF:
        migrate(fresh_database_url)
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env, command=command) as server:
        robust.sign_up_to_sign_in(server, post, "ada@example.com")

        running = robust.HalfSent(server, "late@example.com")
        time.sleep(0.5)
        everybody = robust.descendants(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert running.finish() == 200
        assert server.process.wait(robust.PATIENCE_SECONDS) == 0
        robust.wait_until(lambda: robust.are_gone(everybody), "all processes have left")
        assert "Traceback" not in server.log.read_text()

        server.launch()
        server.wait()
        post.wait("late@example.com", seconds=robust.PATIENCE_SECONDS)


@pytest.mark.timeout(300)
def test_a_killed_process_is_replaced_and_its_letters_arrive(
    tmp_path: Path, fresh_database_url: str, post: Postbox
) -> None:
    env = {**robust.settings_for(post), "AUTH_SERVER": "gunicorn"}
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        post.smtp.delay = 60
        people = [f"person{number}@example.com" for number in range(3)]
        for email in people:
            made = robust.sign_up(server, email)
            assert made is not None
            assert made.status_code == 200
        time.sleep(0.5)
        killed = robust.all_serving_processes(server)
        post.smtp.delay = 0
        for process in killed:
            process.kill()
        for email in people:
            post.wait(email, seconds=robust.PATIENCE_SECONDS)
        assert not set(robust.serving_processes(server)) & set(killed)
    assert {len(ids) for ids in robust.message_ids(post.smtp).values()} == {1}


@pytest.mark.timeout(300)
def test_new_processes_answer_after_sighup(tmp_path: Path, fresh_database_url: str, post: Postbox) -> None:
    migrate(fresh_database_url)
    env = {**robust.settings_for(post), "AUTH_SERVER": "gunicorn"}
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env, command=BY_ITSELF) as server:
        before = robust.all_serving_processes(server)
        server.process.send_signal(signal.SIGHUP)
        robust.wait_until(lambda: robust.are_gone(before), "the old processes have left")
        for _ in range(8):
            assert requests.get(f"{server.url}/health", timeout=robust.PATIENCE_SECONDS).status_code == 200


def test_a_port_in_use_is_told(tmp_path: Path, fresh_database_url: str, post: Postbox) -> None:
    migrate(fresh_database_url)
    env = {**robust.settings_for(post), "AUTH_SERVER": "gunicorn"}
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env, command=BY_ITSELF) as server:
        elsewhere = tmp_path / "second"
        elsewhere.mkdir()
        second = servers.LiveServer(
            folder=elsewhere, database_url=fresh_database_url, env=env, command=BY_ITSELF, port=server.port
        )
        second.launch()
        assert second.process.wait(robust.PATIENCE_SECONDS) == 1
        assert "http server listen failed" in second.log.read_text()

"""A busy server stops: running requests are answered, queued messages are kept, and no process is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.processes import are_gone, descendants
from tests.timeouts import TIMEOUT_SECONDS, wait_until


def terminate(server: servers.LiveServer) -> None:
    os.kill(server.process.pid, signal.SIGTERM)


def press_ctrl_c(server: servers.LiveServer) -> None:
    """A terminal sends it to every process of the foreground group."""
    os.killpg(server.process.pid, signal.SIGINT)


@pytest.mark.parametrize("stop", [terminate, press_ctrl_c])
def test_shutdown_under_load_is_graceful(
    stop: Callable[[servers.LiveServer], None], tmp_path: Path, fresh_database_url: str, mailbox: MailboxServer
) -> None:
    env = sign_ups.settings_for(mailbox)
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        mailbox.smtp.delay = 1
        for number in range(4):
            assert sign_ups.sign_up(server, f"early{number}@example.com") is not None
        running = [sign_ups.HalfSent(server, f"late{number}@example.com") for number in range(4)]
        processes = descendants(server)

        stop(server)
        wait_until(lambda: "graceful shutdown" in server.log.read_text(), "the start of the shutdown")
        assert [request.finish() for request in running] == [200] * 4
        assert server.process.wait(TIMEOUT_SECONDS) == 0
        wait_until(lambda: are_gone(processes), "all processes to exit")
        assert "Traceback" not in server.log.read_text()

        # The next server delivers the queued messages.
        mailbox.smtp.delay = 0
        server.launch()
        server.wait()
        wait_until(lambda: servers.count_rows(fresh_database_url, "procrastinate_jobs") == 0, "an empty queue")
    assert {email: len(ids) for email, ids in mailbox.smtp.message_ids().items()} == {
        f"{when}{number}@example.com": 1 for when in ("early", "late") for number in range(4)
    }


# gunicorn's own handler of Ctrl-C can hang until it kills its processes a minute later, so it is not tested here.
@pytest.mark.parametrize(
    ("http_server", "stop"), [("granian", terminate), ("granian", press_ctrl_c), ("gunicorn", terminate)]
)
def test_embedded_database_stops_with_server(
    http_server: str,
    stop: Callable[[servers.LiveServer], None],
    tmp_path: Path,
    database_folder: Path,
    mailbox: MailboxServer,
) -> None:
    env = sign_ups.settings_for(mailbox)
    command = servers.COMMANDS[http_server]
    url = f"embedded:{database_folder}"
    with servers.LiveServer(folder=tmp_path, database_url=url, env=env, command=command) as server:
        sign_ups.sign_up_to_sign_in(server, mailbox, "ada@example.com")
        database = psutil.Process(int((database_folder / "data" / "postmaster.pid").read_text().split()[0]))
        processes = [*descendants(server), database, *database.children(recursive=True)]

        stop(server)
        assert server.process.wait(TIMEOUT_SECONDS) == 0
        wait_until(lambda: are_gone(processes), "all processes to exit")
    assert not (database_folder / "data" / "postmaster.pid").exists()

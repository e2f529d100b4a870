"""Server processes are killed at arbitrary moments: every accepted email is still delivered."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.live import servers, sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.processes import all_serving_processes, are_gone, descendants, serving_processes
from tests.timeouts import wait_until

SIGN_UPS = 12
"""Sign-ups per round; a quarter of them concurrently."""


def kill_serving_process(server: servers.LiveServer) -> None:
    """Kill one serving process and wait until the supervisor has replaced it."""
    before = all_serving_processes(server)
    before[0].kill()
    wait_until(lambda: len(set(serving_processes(server)) - set(before)) == 1, "a replacement process")


def kill_supervisor(server: servers.LiveServer) -> None:
    orphans = descendants(server)
    server.process.kill()
    server.process.wait()
    wait_until(lambda: are_gone(orphans), "the children of the killed supervisor to exit")
    server.launch()
    server.wait()


def kill_everything(server: servers.LiveServer) -> None:
    server.kill()
    server.launch()
    server.wait()


def test_killed_processes_lose_no_accepted_email(
    tmp_path: Path, fresh_database_url: str, mailbox: MailboxServer
) -> None:
    mailbox.smtp.delay = 0.2
    accepted: set[str] = set()
    server = servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=sign_ups.settings_for(mailbox))

    def sign_up(number: int) -> None:
        email = f"person{number}@example.com"
        made = sign_ups.sign_up(server, email)
        if made is not None:
            assert made.status_code == 200, made.text
            accepted.add(email)

    kills = (kill_serving_process, kill_supervisor, kill_serving_process, kill_everything, kill_serving_process)
    with server, ThreadPoolExecutor(SIGN_UPS // 4) as pool:
        for number, kill in enumerate(kills):
            first = number * SIGN_UPS
            responses = [pool.submit(sign_up, number) for number in range(first, first + SIGN_UPS)]
            time.sleep(random.uniform(0.2, 2))
            kill(server)
            for response in responses:
                response.result()
        mailbox.smtp.delay = 0
        wait_until(lambda: accepted <= mailbox.smtp.message_ids().keys(), "delivery of all accepted emails")
        wait_until(lambda: servers.count_rows(fresh_database_url, "procrastinate_jobs") == 0, "an empty queue")

    assert len(accepted) > SIGN_UPS
    copies = mailbox.smtp.message_ids()
    assert [ids for ids in copies.values() if len(set(ids)) > 1] == []


def test_two_concurrently_killed_processes_are_replaced(
    tmp_path: Path, fresh_database_url: str, mailbox: MailboxServer
) -> None:
    with servers.LiveServer(
        folder=tmp_path, database_url=fresh_database_url, env=sign_ups.settings_for(mailbox)
    ) as server:
        before = all_serving_processes(server)
        for process in before:
            process.kill()
        wait_until(lambda: len(set(serving_processes(server)) - set(before)) == 2, "two replacement processes")
        server.wait()

        sign_ups.sign_up_to_sign_in(server, mailbox, "ada@example.com")
        assert server.stop() == 0

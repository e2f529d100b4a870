"""A mail server is down, refuses, hangs and hangs up: nobody who asks for mail notices, and each letter comes once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
import requests
from psycopg.types.json import Jsonb

from authsvc.messaging import Email
from mailer.delivery import encryption
from tests.fakes.smtp import DROP, HANG
from tests.live.clients.postbox import Postbox
from tests.live.robustness import conftest as robust
from tests.live.servers import LiveServer

LIFE = timedelta(minutes=90)
"""Of a link. A second half of it is less than an hour, its whole more."""
EXPIRED = "expired before it could be delivered"
TEMPORARY = {
    "CONNECT": "421 4.3.2 too busy",
    "MAIL": "451 4.3.0 try later",
    "RCPT": "450 4.2.0 greylisted",
    "DATA": "452 4.3.1 disk full",
}


class Job(NamedTuple):
    status: str
    message: Email


class Ledger:
    """What a running server has noted about its letters, by recipient; and the passing of time."""

    def __init__(self, url: str) -> None:
        self._url = url

    def jobs(self) -> dict[str, Job]:
        """Those not delivered; of each person the newest."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT status::text, args FROM procrastinate_jobs WHERE task_name = 'mailer.deliver' ORDER BY id"
            )
            found = [Job(status, _open(args)) for status, args in rows]
        return {job.message.to: job for job in found}

    def attempts(self, message_id: UUID) -> list[tuple[str, str]]:
        """Outcome and error of each, oldest first."""
        with psycopg.connect(self._url) as connection:
            return connection.execute(
                "SELECT outcome, error FROM message_attempts WHERE message_id = %s ORDER BY attempt", [message_id]
            ).fetchall()

    def wait_for_failure(self, messages: Iterable[Email], *, error: str) -> None:
        """Return when the last attempt of all of them has failed with that error, and another is to follow."""

        def have_failed() -> bool:
            last = [self.attempts(message.id)[-1:] for message in messages]
            return all(attempt and attempt[0][0] == "retry" and error in attempt[0][1] for attempt in last)

        robust.wait_until(have_failed, f"all have failed with {error}")

    def let_pass(self, period: timedelta) -> None:
        """Make the world older: links and codes, wherever they are stored, and the schedule of the queue."""

        def age(connection: psycopg.Connection, job_id: int, args: dict[str, str]) -> None:
            message = _open(args)
            assert message.expires_at is not None
            older = dataclasses.replace(message, expires_at=message.expires_at - period)
            connection.execute(
                "UPDATE procrastinate_jobs SET args = %s, scheduled_at = scheduled_at - %s WHERE id = %s",
                [Jsonb({**args, "sealed": encryption.encrypt(older)}), period, job_id],
            )

        self._at_rest(age)
        with psycopg.connect(self._url) as connection:
            connection.execute("UPDATE one_time_tokens SET created_at = created_at - %s", [period])

    def make_due(self) -> None:
        """End every pause."""

        def end_pause(connection: psycopg.Connection, job_id: int, _args: dict[str, str]) -> None:
            connection.execute("UPDATE procrastinate_jobs SET scheduled_at = now() WHERE id = %s", [job_id])

        self._at_rest(end_pause)

    def _at_rest(self, change: Callable[[psycopg.Connection, int, dict[str, str]], None]) -> None:
        """Change all letters in the queue at a moment when none of them is being delivered."""

        def have_changed() -> bool:
            with psycopg.connect(self._url) as connection:
                queued = connection.execute(
                    "SELECT id, args, status = 'doing' FROM procrastinate_jobs"
                    " WHERE status IN ('todo', 'doing') AND task_name = 'mailer.deliver' FOR UPDATE"
                ).fetchall()
                if any(is_running for _, _, is_running in queued):
                    return False
                for job_id, args, _ in queued:
                    change(connection, job_id, args)
            return True

        robust.wait_until(have_changed, "a moment without an attempt")


def _open(args: dict[str, str]) -> Email:
    # The server and this process have one JWT_SECRET.
    message = encryption.decrypt(args["sealed"], message_id=UUID(args["message_id"]))
    assert isinstance(message, Email)
    return message


def people(name: str, count: int) -> list[str]:
    return [f"{name}{number}@example.com" for number in range(count)]


def sign_up(server: LiveServer, *addresses: str) -> set[frozenset[str]]:
    """What the answers consist of; all have to be good."""
    answers = [robust.sign_up(server, address) for address in addresses]
    assert [answer.status_code if answer is not None else None for answer in answers] == [200] * len(addresses)
    return {frozenset(answer.json()) for answer in answers if answer is not None}


def recover(server: LiveServer, address: str) -> None:
    answer = requests.post(f"{server.url}/recover", json={"email": address}, timeout=robust.PATIENCE_SECONDS)
    assert (answer.status_code, answer.json()) == (200, {})


def landing(message: Email) -> str:
    """What the link of a mail brings first: an `access_token`, or an `error`."""
    link = message.variables["ConfirmationURL"]
    answer = requests.get(link, allow_redirects=False, timeout=robust.PATIENCE_SECONDS)
    return urlsplit(answer.headers["Location"]).fragment.partition("=")[0]


@pytest.mark.timeout(300)
def test_whatever_a_mail_server_goes_through_each_letter_that_counts_comes_once(
    tmp_path: Path, fresh_database_url: str, post: Postbox
) -> None:
    env = robust.settings_for(post) | {"AUTH_MAILER_OTP_EXP": str(int(LIFE.total_seconds()))}
    ledger, smtp = Ledger(fresh_database_url), post.smtp
    early, late, ada = people("early", 2), people("late", 2), "ada@example.com"
    patient, crowd, cut, gone, spam = people("patient", 2), people("crowd", 3), "cut@x.com", "gone@x.com", "spam@x.com"

    with LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        robust.all_serving_processes(server)
        usual = sign_up(server, ada)
        letter = post.wait(ada, seconds=robust.PATIENCE_SECONDS)
        assert "access_token=" in requests.get(letter.link, allow_redirects=False, timeout=30).headers["Location"]

        # Down, for longer than the links of the first live.
        smtp.stop()
        assert sign_up(server, *early) == usual
        too_late = [ledger.jobs()[address].message for address in early]
        ledger.wait_for_failure(too_late, error="ConnectionRefusedError")
        ledger.let_pass(timedelta(hours=1))
        assert sign_up(server, *late) == usual
        recover(server, ada)
        in_time = [ledger.jobs()[address].message for address in (*late, ada)]
        ledger.wait_for_failure(in_time, error="ConnectionRefusedError")
        ledger.let_pass(timedelta(minutes=45))
        robust.wait_until(lambda: all(ledger.jobs()[one].status == "failed" for one in early), "the first are given up")

        # Back, but not well.
        smtp.answers = {"CONNECT": TEMPORARY["CONNECT"]}
        smtp.start()
        for moment, answer in TEMPORARY.items():
            smtp.answers = {moment: answer}
            ledger.make_due()
            ledger.wait_for_failure(in_time, error=answer)
        assert len(smtp.received) == 1

        # Well, for all but two.
        smtp.answers = {}
        smtp.refusals = {gone: "550 5.1.1 no such user"}
        ledger.make_due()
        assert sign_up(server, gone) == usual
        robust.wait_until(lambda: ledger.jobs().keys() == {*early, gone}, "the second are delivered")
        robust.wait_until(lambda: ledger.jobs()[gone].status == "failed", "the refused one is given up")
        assert [landing(message) for message in in_time] == ["access_token"] * 3
        smtp.answers = {"DATA": "554 5.7.1 spam"}
        assert sign_up(server, spam) == usual
        robust.wait_until(lambda: ledger.jobs()[spam].status == "failed", "the unwanted one is given up")

        # Silent, with a letter of each process in its hands.
        smtp.answers = {"DATA": HANG}
        assert sign_up(server, *patient) == usual
        robust.wait_until(lambda: smtp.hanging == len(patient), "all workers are kept waiting")
        assert sign_up(server, *crowd) == usual
        recover(server, late[0])
        untouched = [ledger.jobs()[address] for address in (*crowd, late[0])]
        assert [(job.status, ledger.attempts(job.message.id)) for job in untouched] == [("todo", [])] * len(untouched)
        held = [ledger.jobs()[address].message for address in patient]
        assert smtp.hanging == len(patient)
        smtp.answers = {}
        robust.wait_until(lambda: ledger.jobs().keys() == {*early, gone, spam}, "all are delivered")

        # Gone in the middle of a letter.
        smtp.answers = {"BODY": DROP}
        assert sign_up(server, cut) == usual
        broken_off = ledger.jobs()[cut].message
        ledger.wait_for_failure([broken_off], error="SMTPServerDisconnected")
        smtp.answers = {}
        robust.wait_until(lambda: cut not in ledger.jobs(), "the broken one is delivered")

        kept = ledger.jobs()
        assert [landing(message) for message in (*held, broken_off)] == ["access_token"] * 3
        assert [landing(message) for message in too_late] == ["error"] * 2

    copies = robust.message_ids(smtp)
    assert {address: len(ids) for address, ids in copies.items()} == {
        **dict.fromkeys((*late, *patient, *crowd, cut, ada), 1),
        ada: 2,
        late[0]: 2,
    }
    assert all(len(set(ids)) == len(ids) for ids in copies.values())
    for message in (*in_time, *held, broken_off):
        assert f"<{message.id}@example.com>" in copies[message.to]
        assert [outcome for outcome, _ in ledger.attempts(message.id)][-2:] == ["retry", "delivered"]
    transmitted = [letter.message["Message-ID"] for letter in smtp.transmitted]
    assert all(transmitted.count(f"<{message.id}@example.com>") > 1 for message in (*in_time, *held))

    assert kept.keys() == {*early, gone, spam}
    assert [ledger.attempts(message.id)[-1] for message in too_late] == [("failed", EXPIRED)] * len(too_late)
    assert ledger.attempts(kept[gone].message.id) == [("failed", "550 5.1.1 no such user")]
    assert ledger.attempts(kept[spam].message.id) == [("failed", "554 5.7.1 spam")]
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if "message delivery failed" in line]
    assert {line["message_id"] for line in lines} == {str(job.message.id) for job in kept.values()}

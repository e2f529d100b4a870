"""The mail server is down, rejects, hangs and disconnects: requests are unaffected and each email arrives once."""

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
import requests
from psycopg.types.json import Jsonb

from authsvc.messaging import Email
from mailer.delivery import encryption
from tests.fakes.smtp import DROP, HANG
from tests.live import sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.processes import all_serving_processes
from tests.live.servers import LiveServer
from tests.timeouts import TIMEOUT_SECONDS, wait_until

LIFE = timedelta(minutes=90)
"""Lifetime of a link. The second half is less than an hour, the whole more."""
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


class DeliveryState:
    """Reads the delivery state of emails by recipient from the database, and moves time forward."""

    def __init__(self, url: str) -> None:
        self._url = url

    def jobs(self) -> dict[str, Job]:
        """Undelivered jobs; the newest for each recipient."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT status::text, args FROM procrastinate_jobs WHERE task_name = 'mailer.deliver' ORDER BY id"
            )
            queued = [Job(status, _open(args)) for status, args in rows]
        return {job.message.to: job for job in queued}

    def attempts(self, message_id: UUID) -> list[tuple[str, str]]:
        """Outcome and error of each attempt, oldest first."""
        with psycopg.connect(self._url) as connection:
            return connection.execute(
                "SELECT outcome, error FROM message_attempts WHERE message_id = %s ORDER BY attempt", [message_id]
            ).fetchall()

    def wait_for_failure(self, messages: Iterable[Email], *, error: str) -> None:
        """Wait until the last attempt of each message failed with this error and a retry is scheduled."""

        def have_failed() -> bool:
            last = [self.attempts(message.id)[-1:] for message in messages]
            return all(attempt and attempt[0][0] == "retry" and error in attempt[0][1] for attempt in last)

        wait_until(have_failed, f"all deliveries to fail with {error}")

    def advance_time(self, period: timedelta) -> None:
        """Move links, codes and scheduled jobs back by `period`, wherever they are stored."""

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
        """Make all scheduled retries due now."""

        def end_pause(connection: psycopg.Connection, job_id: int, _args: dict[str, str]) -> None:
            connection.execute("UPDATE procrastinate_jobs SET scheduled_at = now() WHERE id = %s", [job_id])

        self._at_rest(end_pause)

    def _at_rest(self, change: Callable[[psycopg.Connection, int, dict[str, str]], None]) -> None:
        """Apply `change` to all queued emails at a moment when none is being delivered."""

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

        wait_until(have_changed, "a moment without a running delivery")


def _open(args: dict[str, str]) -> Email:
    # The server and this process have one JWT_SECRET.
    message = encryption.decrypt(args["sealed"], message_id=UUID(args["message_id"]))
    assert isinstance(message, Email)
    return message


def addresses_for(name: str, count: int) -> list[str]:
    return [f"{name}{number}@example.com" for number in range(count)]


def sign_up(server: LiveServer, *addresses: str) -> set[frozenset[str]]:
    """The distinct key sets of the responses; all must be successful."""
    responses = [sign_ups.sign_up(server, address) for address in addresses]
    assert [response.status_code if response is not None else None for response in responses] == [200] * len(addresses)
    return {frozenset(response.json()) for response in responses if response is not None}


def recover(server: LiveServer, address: str) -> None:
    response = requests.post(f"{server.url}/recover", json={"email": address}, timeout=TIMEOUT_SECONDS)
    assert (response.status_code, response.json()) == (200, {})


def landing(message: Email) -> str:
    """The first fragment key of the link's redirect: `access_token` or `error`."""
    link = message.variables["ConfirmationURL"]
    response = requests.get(link, allow_redirects=False, timeout=TIMEOUT_SECONDS)
    return urlsplit(response.headers["Location"]).fragment.partition("=")[0]


def test_each_valid_email_arrives_once_despite_mail_server_failures(
    tmp_path: Path, fresh_database_url: str, mailbox: MailboxServer
) -> None:
    env = sign_ups.settings_for(mailbox) | {"AUTH_MAILER_OTP_EXP": str(int(LIFE.total_seconds()))}
    deliveries, smtp = DeliveryState(fresh_database_url), mailbox.smtp
    early, late, ada = addresses_for("early", 2), addresses_for("late", 2), "ada@example.com"
    patient, crowd, cut, gone, spam = (
        addresses_for("patient", 2),
        addresses_for("crowd", 3),
        "cut@x.com",
        "gone@x.com",
        "spam@x.com",
    )

    with LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        all_serving_processes(server)
        usual = sign_up(server, ada)
        received = mailbox.wait(ada, seconds=TIMEOUT_SECONDS)
        assert "access_token=" in requests.get(received.link, allow_redirects=False, timeout=60).headers["Location"]

        # Down, longer than the lifetime of the first links.
        smtp.stop()
        assert sign_up(server, *early) == usual
        too_late = [deliveries.jobs()[address].message for address in early]
        deliveries.wait_for_failure(too_late, error="ConnectionRefusedError")
        deliveries.advance_time(timedelta(hours=1))
        assert sign_up(server, *late) == usual
        recover(server, ada)
        in_time = [deliveries.jobs()[address].message for address in (*late, ada)]
        deliveries.wait_for_failure(in_time, error="ConnectionRefusedError")
        deliveries.advance_time(timedelta(minutes=45))
        wait_until(
            lambda: all(deliveries.jobs()[one].status == "failed" for one in early),
            "the first emails to fail permanently",
        )

        # Reachable, with temporary errors.
        smtp.replies = {"CONNECT": TEMPORARY["CONNECT"]}
        smtp.start()
        for moment, response in TEMPORARY.items():
            smtp.replies = {moment: response}
            deliveries.make_due()
            deliveries.wait_for_failure(in_time, error=response)
        assert len(smtp.received) == 1

        # Working, except for two recipients.
        smtp.replies = {}
        smtp.rejections = {gone: "550 5.1.1 no such user"}
        deliveries.make_due()
        assert sign_up(server, gone) == usual
        wait_until(lambda: deliveries.jobs().keys() == {*early, gone}, "delivery of the second emails")
        wait_until(lambda: deliveries.jobs()[gone].status == "failed", "the rejected email to fail permanently")
        assert [landing(message) for message in in_time] == ["access_token"] * 3
        smtp.replies = {"DATA": "554 5.7.1 spam"}
        assert sign_up(server, spam) == usual
        wait_until(lambda: deliveries.jobs()[spam].status == "failed", "the spam email to fail permanently")

        # Hanging, with one email in progress in each process.
        smtp.replies = {"DATA": HANG}
        assert sign_up(server, *patient) == usual
        wait_until(lambda: smtp.hanging == len(patient), "all workers to hang")
        assert sign_up(server, *crowd) == usual
        recover(server, late[0])
        untouched = [deliveries.jobs()[address] for address in (*crowd, late[0])]
        assert [(job.status, deliveries.attempts(job.message.id)) for job in untouched] == [("todo", [])] * len(
            untouched
        )
        held = [deliveries.jobs()[address].message for address in patient]
        assert smtp.hanging == len(patient)
        smtp.replies = {}
        wait_until(lambda: deliveries.jobs().keys() == {*early, gone, spam}, "delivery of all emails")

        # Disconnecting during an email.
        smtp.replies = {"BODY": DROP}
        assert sign_up(server, cut) == usual
        broken_off = deliveries.jobs()[cut].message
        deliveries.wait_for_failure([broken_off], error="SMTPServerDisconnected")
        smtp.replies = {}
        wait_until(lambda: cut not in deliveries.jobs(), "delivery of the interrupted email")

        kept = deliveries.jobs()
        assert [landing(message) for message in (*held, broken_off)] == ["access_token"] * 3
        assert [landing(message) for message in too_late] == ["error"] * 2

    copies = smtp.message_ids()
    assert {address: len(ids) for address, ids in copies.items()} == {
        **dict.fromkeys((*late, *patient, *crowd, cut, ada), 1),
        ada: 2,
        late[0]: 2,
    }
    assert all(len(set(ids)) == len(ids) for ids in copies.values())
    for message in (*in_time, *held, broken_off):
        assert f"<{message.id}@example.com>" in copies[message.to]
        assert [outcome for outcome, _ in deliveries.attempts(message.id)][-2:] == ["retry", "delivered"]
    transmitted = [received.message["Message-ID"] for received in smtp.transmitted]
    assert all(transmitted.count(f"<{message.id}@example.com>") > 1 for message in (*in_time, *held))

    assert kept.keys() == {*early, gone, spam}
    assert [deliveries.attempts(message.id)[-1] for message in too_late] == [("failed", EXPIRED)] * len(too_late)
    assert deliveries.attempts(kept[gone].message.id) == [("failed", "550 5.1.1 no such user")]
    assert deliveries.attempts(kept[spam].message.id) == [("failed", "554 5.7.1 spam")]
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if "message delivery failed" in line]
    assert {line["message_id"] for line in lines} == {str(job.message.id) for job in kept.values()}

"""A sent message becomes one encrypted job in the sender's transaction, or none."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from authsvc import messaging
from authsvc.messaging import Email, EmailType, Sms, SmsType
from mailer.delivery import encryption
from tests.conftest import ChangeConfig
from tests.mailer.conftest import Queue

SECRETS = ("ada.lovelace@example.com", "987654", "https://auth.example.com/verify?token=0f0f0f0f")
EMAIL = Email(
    type=EmailType.CONFIRMATION,
    to=SECRETS[0],
    variables={"Email": SECRETS[0], "Token": SECRETS[1], "ConfirmationURL": SECRETS[2], "Data": {}},
    user_id=uuid4(),
    expires_at=datetime(2030, 1, 1, tzinfo=UTC),
)
SMS = Sms(type=SmsType.CONFIRMATION, to="15551234567", channel="whatsapp", variables={"Code": "987654"})


@pytest.mark.parametrize(("message", "channel"), [(EMAIL, "email"), (SMS, "whatsapp")])
def test_a_commit_adds_one_job_with_the_encrypted_message(queue: Queue, message: Email | Sms, channel: str) -> None:
    with transaction.atomic():
        messaging.send(message)
    (job,) = queue.jobs()
    arguments = json.loads(job["args"])
    sealed = arguments.pop("sealed")
    assert arguments == {
        "message_id": str(message.id),
        "channel": channel,
        "kind": "confirmation",
        "to_user": encryption.recipient_digest(message.user_id) if message.user_id else None,
        "to_address": encryption.recipient_digest(message.to),
    }
    assert encryption.decrypt(sealed, message_id=message.id) == dataclasses.replace(message, language="en")
    assert job["queue_name"] == "default"


def test_a_rollback_adds_no_job(queue: Queue) -> None:
    with transaction.atomic():
        messaging.send(EMAIL, SMS)
        assert len(queue.jobs()) == 2
        transaction.set_rollback(True)
    assert queue.jobs() == []


def test_queued_messages_are_not_readable(queue: Queue) -> None:
    with transaction.atomic():
        messaging.send(EMAIL)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(row::text, ' ') FROM (SELECT j, e FROM procrastinate_jobs j JOIN procrastinate_events e"
            " ON e.job_id = j.id) row"
        )
        (everything,) = cursor.fetchone() or ("",)
    assert str(EMAIL.id) in everything
    assert not [secret for secret in (*SECRETS, "lovelace", "0f0f0f0f", str(EMAIL.user_id)) if secret in everything]


def test_sending_needs_one_statement(queue: Queue) -> None:
    with transaction.atomic(), CaptureQueriesContext(connection) as statements:
        messaging.send(EMAIL)
    assert len(statements) == 1


def test_jobs_go_to_the_queue_of_the_installation(queue: Queue, auth_config: ChangeConfig) -> None:
    auth_config(database={"namespace": "second"})
    with transaction.atomic():
        messaging.send(EMAIL)
    assert [job["queue_name"] for job in queue.jobs()] == ["second_"]


@pytest.mark.parametrize(("switched_on", "jobs"), [(frozenset(), 0), (frozenset({"password_changed"}), 1)])
def test_notifications_are_sent_if_enabled(
    queue: Queue, auth_config: ChangeConfig, switched_on: frozenset[str], jobs: int
) -> None:
    auth_config(mailer={"notifications": switched_on})
    with transaction.atomic():
        messaging.send(Email(type=EmailType.PASSWORD_CHANGED, to="a@example.com", variables={}))
    assert len(queue.jobs()) == jobs

"""Configured templates in delivered emails: fetched by the worker, never by a request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from authsvc import jobs, messaging
from authsvc.jobs import registry
from authsvc.messaging import Email, EmailType
from mailer.delivery import attempt, encryption
from mailer.models import Attempt
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response
from tests.fakes.smtp import FakeSmtp
from tests.mailer.conftest import Queue
from tests.timeouts import TIMEOUT_SECONDS, wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def peer(auth_config: ChangeConfig) -> Iterator[HttpPeer]:
    """A site with the template of one email type."""
    with HttpPeer() as running:
        auth_config(site={"url": running.url}, mailer={"templates": {"reauthentication": "/t.html"}})
        yield running


def reauthentication_email(**variables: Any) -> Email:
    return Email(
        type=EmailType.REAUTHENTICATION,
        to="ada@example.com",
        variables={"Email": "ada@example.com", "Token": "987654", "SiteURL": "http://localhost:3000", **variables},
    )


@pytest.mark.django_db(transaction=True)
def test_the_worker_renders_the_template(queue: Queue, smtp: FakeSmtp, peer: HttpPeer, worker: jobs.Worker) -> None:
    peer.respond(Response(body=b"<h1>Hello {{ .Data.name }}</h1><p>{{ .Token }}</p>"))
    with transaction.atomic():
        messaging.send(reauthentication_email(Data={"name": "<Ada>"}))
        assert peer.received == []
    wait_until(lambda: queue.outcomes() == [(1, "delivered")], "a delivery")
    [received] = smtp.received
    [text, html] = received.message.iter_parts()
    assert text.get_content_type() == "text/plain"
    assert text.get_content().splitlines() == ["Hello <Ada>", "", "987654"]
    assert (html.get_content_type(), html.get_content().strip()) == (
        "text/html",
        "<h1>Hello &lt;Ada&gt;</h1><p>987654</p>",
    )
    assert [request.target for request in peer.received] == ["/t.html"]


def test_accepting_an_email_does_not_wait_for_its_template(queue: Queue, peer: HttpPeer) -> None:
    peer.respond(Response(hang=True))
    began = time.monotonic()
    with transaction.atomic():
        messaging.send(reauthentication_email())
    assert time.monotonic() - began < 20
    assert (len(queue.jobs()), peer.received) == (1, [])


def test_an_unavailable_template_is_replaced_by_the_built_in_one(
    smtp: FakeSmtp, peer: HttpPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.respond(Response(status=500))
    deliver(reauthentication_email())
    [received] = smtp.received
    assert "987654" in received.message.as_string()
    assert Attempt.objects.get().outcome == "delivered"
    assert [vars(record)["event"] for record in caplog.records] == ["templatemailer_template_body_http_error"]


def test_a_template_that_cannot_be_rendered_fails_the_attempt(smtp: FakeSmtp, peer: HttpPeer) -> None:
    peer.respond(Response(body=b'{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}'))
    with pytest.raises(jobs.Retry):
        deliver(reauthentication_email())
    assert smtp.received == []
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == ("retry", "TemplateRenderError")


@pytest.mark.django_db(transaction=True)
def test_a_worker_fetches_templates_in_advance(queue: Queue, peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(Response(status=503), Response(body=b"one"), Response(body=b"two"))
    auth_config(
        mailer={
            "template_reloading_enabled": True,
            "template_retry_interval": timedelta(seconds=1),
            "template_max_age": timedelta(seconds=1),
        }
    )
    worker = jobs.Worker()
    worker.start()
    wait_until(lambda: len(peer.received) >= 3, "three requests")
    assert worker.stop(seconds=TIMEOUT_SECONDS)
    assert queue.outcomes() == []


@pytest.mark.django_db(transaction=True)
def test_a_failing_worker_loop_is_logged_and_continues_until_the_worker_stops(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "worker_loops", {})
    times: list[float] = []

    @jobs.worker_loop(name="test.loop", interval=lambda: timedelta(milliseconds=50))
    def run() -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            raise ValueError("once")

    worker = jobs.Worker()
    worker.start()
    wait_until(lambda: len(times) >= 3, "three runs")
    assert worker.stop(seconds=TIMEOUT_SECONDS)
    assert [vars(record)["task"] for record in caplog.records if "loop" in record.msg] == ["test.loop"]
    wait_until(lambda: "test.loop" not in {thread.name for thread in threading.enumerate()}, "the end of the thread")


@pytest.mark.django_db(transaction=True)
def test_task_names_are_unique() -> None:
    with pytest.raises(ValueError, match=r"mailer\.deliver"):
        jobs.worker_loop(name="mailer.deliver", interval=lambda: timedelta(1))(lambda: None)


def deliver(message: Email) -> None:
    attempt.deliver(
        message_id=message.id,
        channel="email",
        kind=str(message.type),
        encrypted=encryption.encrypt(message),
        attempt=1,
        retry_delay=timedelta(seconds=5),
        at=timezone.now(),
    )

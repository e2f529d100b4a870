"""Delivery of an SMS: from the settings to the gateway, recorded outcomes and retries."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.db import transaction
from django.utils import timezone

from authsvc import jobs, messaging
from authsvc.messaging import Sms, SmsType
from mailer.checks import check_sms_templates
from mailer.delivery import attempt, encryption
from mailer.inbox import storage
from mailer.models import Attempt
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.mailer.conftest import Queue
from tests.mailer.sms.conftest import UseGateway
from tests.timeouts import TIMEOUT_SECONDS, wait_until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TAKEN = in_json({"sid": "SM1", "status": "queued"}, status=201)
BUSY = in_json({"code": 500, "message": "Internal server error", "more_info": "error"}, status=500)


def an_sms(**fields: Any) -> Sms:
    defaults: dict[str, Any] = {"type": SmsType.CONFIRMATION, "to": "15551234567", "channel": "sms"}
    return Sms(**{**defaults, "variables": {"Code": "987654"}, **fields})


def deliver(message: Sms, *, pause: timedelta | None = timedelta(seconds=5)) -> None:
    attempt.deliver(
        message_id=message.id,
        channel=message.channel,
        kind=str(message.type),
        encrypted=encryption.encrypt(message),
        attempt=1,
        retry_delay=pause,
        at=NOW,
    )


@pytest.mark.django_db
def test_the_message_id_of_the_gateway_is_recorded(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio")
    gateway.respond(TAKEN)
    deliver(an_sms())
    recorded = Attempt.objects.get()
    assert (recorded.channel, recorded.kind, recorded.outcome, recorded.gateway_id) == (
        "sms",
        "confirmation",
        "delivered",
        "SM1",
    )
    assert gateway.received[0].form["Body"] == "Your code is 987654"


@pytest.mark.django_db
def test_the_configured_text_is_sent(gateway: MockedServer, use_gateway: UseGateway, auth_config: ChangeConfig) -> None:
    use_gateway("vonage")
    auth_config(sms={"template": "<{{ .Code }}> é{{ .Email }}"})
    gateway.respond(in_json({"messages": [{"status": "0"}]}))
    deliver(an_sms(variables={"Code": "987654", "Email": "ada@example.com"}))
    form = gateway.received[0].form
    assert (form["text"], form["type"]) == ("<987654> é", "unicode")


@pytest.mark.django_db
def test_the_channel_and_the_code_reach_the_gateway(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio", content_sid="HX1")
    gateway.respond(TAKEN)
    deliver(an_sms(channel="whatsapp"))
    form = gateway.received[0].form
    assert (form["To"], form["ContentVariables"]) == ("whatsapp:+15551234567", '{"1": "987654"}')


@pytest.mark.django_db
def test_the_development_inbox_replaces_the_gateway(
    gateway: MockedServer, use_gateway: UseGateway, auth_config: ChangeConfig, settings: Any, tmp_path: Path
) -> None:
    settings.DEV_INBOX_FOLDER = tmp_path
    use_gateway("twilio")
    auth_config(mailer={"dev_inbox_enabled": True})
    deliver(an_sms())
    (copy,) = storage.list_messages()
    assert (copy.channel, copy.to, copy.text) == ("sms", "15551234567", "Your code is 987654")
    assert gateway.received == []


@pytest.mark.django_db
def test_a_permanent_rejection_is_not_retried(
    gateway: MockedServer, use_gateway: UseGateway, caplog: pytest.LogCaptureFixture
) -> None:
    use_gateway("textlocal")
    gateway.respond(in_json({"status": "failure", "errors": [{"code": 80, "message": "no such template"}]}))
    with pytest.raises(jobs.PermanentFailure):
        deliver(an_sms())
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == (
        "failed",
        "textlocal error: no such template (code: 80) template message: Your code is …",
    )
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "987654" not in str(vars(caplog.records[0]))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("provider", "document", "error"),
    [
        (
            "twilio",
            {"status": "failed", "error_message": "failed to send sms", "error_code": "401", "sid": "abcdef"},
            "twilio error: failed to send sms 401 for message abcdef",
        ),
        ("messagebird", {"recipients": {"totalSentCount": 0}}, "messagebird error: total sent count is 0"),
        (
            "vonage",
            {"messages": [{"status": "4", "error-text": "15551234567 barred", "message-id": "a1"}]},
            "vonage error: … barred (status: 4) for message a1",
        ),
    ],
)
def test_a_failed_attempt_records_the_error_of_the_gateway(
    gateway: MockedServer, use_gateway: UseGateway, provider: str, document: Any, error: str
) -> None:
    use_gateway(provider)
    gateway.respond(in_json(document))
    with pytest.raises(jobs.Retry):
        deliver(an_sms())
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == ("retry", error)


@pytest.mark.django_db
def test_an_expired_code_is_not_sent(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio")
    with pytest.raises(jobs.PermanentFailure):
        deliver(an_sms(expires_at=NOW))
    assert gateway.received == []
    assert Attempt.objects.get().error == "expired before it could be delivered"


# --- through the queue ------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_committed_sms_is_retried_until_the_gateway_accepts_it(
    queue: Queue, gateway: MockedServer, use_gateway: UseGateway, worker: jobs.Worker
) -> None:
    use_gateway("twilio")
    gateway.respond(BUSY, TAKEN)
    with transaction.atomic():
        messaging.send(an_sms())
    wait_until(lambda: queue.outcomes() == [(1, "retry")] and queue.states() == ["todo"], "a retry")
    assert Attempt.objects.get().error == "Internal server error More information: error"
    assert "987654" not in str(queue.jobs())
    assert "15551234567" not in str(queue.jobs())
    queue.make_due()
    wait_until(lambda: not queue.jobs(), "an empty queue")
    assert queue.outcomes() == [(1, "retry"), (2, "delivered")]
    assert [received.form["Body"] for received in gateway.received] == ["Your code is 987654"] * 2


@pytest.mark.django_db(transaction=True)
def test_an_sms_whose_code_expires_before_the_next_attempt_fails(
    queue: Queue, gateway: MockedServer, use_gateway: UseGateway
) -> None:
    use_gateway("twilio")
    gateway.respond(BUSY)
    with transaction.atomic():
        messaging.send(an_sms(expires_at=timezone.now() + timedelta(seconds=9)))
    # Half of the remaining time is shorter than the minimum delay of a retry.
    queue.make_due(attempts=3)
    worker = jobs.Worker()
    worker.start()
    wait_until(lambda: queue.states() == ["failed"], "a failed job")
    assert worker.stop(seconds=TIMEOUT_SECONDS)
    assert queue.outcomes() == [(4, "failed")]
    assert len(gateway.received) == 1


@pytest.mark.django_db(transaction=True)
def test_an_sms_of_a_rolled_back_transaction_is_not_sent(
    queue: Queue, gateway: MockedServer, use_gateway: UseGateway, worker: jobs.Worker
) -> None:
    use_gateway("twilio")
    gateway.respond(TAKEN)
    with transaction.atomic():
        messaging.send(an_sms(to="15550000000"))
        transaction.set_rollback(True)
    with transaction.atomic():
        messaging.send(an_sms())
    wait_until(lambda: gateway.received and not queue.jobs(), "a delivery")
    assert [received.form["To"] for received in gateway.received] == ["+15551234567"]


# --- at start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "template", "errors"),
    [
        ("twilio", "Your code is {{ .Code }}", []),
        ("twilio", "Your code is {{ .Code", ["mailer.E001"]),
        ("twilio", "{{ nosuch .Code }}", ["mailer.E001"]),
        ("", "Your code is {{ .Code", []),
    ],
)
def test_an_invalid_sms_template_prevents_the_start(
    auth_config: ChangeConfig, provider: str, template: str, errors: list[str]
) -> None:
    auth_config(sms={"provider": provider, "template": template})
    assert [error.id for error in check_sms_templates()] == errors
    assert [error.id for error in checks.run_checks(tags=[checks.Tags.templates])] == errors


@pytest.mark.parametrize("switch", ["phone_enroll_enabled", "phone_verify_enabled"])
def test_the_factor_template_is_checked_if_phone_factors_are_enabled(auth_config: ChangeConfig, switch: str) -> None:
    auth_config(mfa={"phone_template": "Your code is {{ .Code"})
    assert not check_sms_templates()
    auth_config(mfa={switch: True})
    (error,) = check_sms_templates()
    assert error.msg.startswith("AUTH_MFA_PHONE_TEMPLATE is not a valid template: ")

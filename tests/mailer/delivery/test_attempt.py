"""One delivery attempt: the sent message, the recorded outcome, and the decision on a retry."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pytest_django.fixtures import Settings
from responses import RequestsMock

from authsvc import jobs
from authsvc.conf import Rate
from authsvc.messaging import Email, EmailType, Sms, SmsType
from mailer.delivery import attempt as delivery
from mailer.delivery import encryption
from mailer.inbox import storage
from mailer.models import Attempt
from tests.conftest import ChangeConfig
from tests.fakes.smtp import FakeSmtp

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAUSE = timedelta(seconds=30)


def an_email(**fields: Any) -> Email:
    variables = {"Email": "ada@example.com", "Token": "987654", "SiteURL": "http://localhost:3000", "Data": {}}
    return Email(type=EmailType.REAUTHENTICATION, to="ada@example.com", variables=variables, user_id=uuid4(), **fields)


def an_sms(**fields: Any) -> Sms:
    return Sms(type=SmsType.CONFIRMATION, to="15551234567", channel="sms", variables={"Code": "987654"}, **fields)


def deliver(message: Email | Sms, *, attempt: int = 1, pause: timedelta | None = PAUSE, at: datetime = NOW) -> None:
    delivery.deliver(
        message_id=message.id,
        channel="email" if isinstance(message, Email) else message.channel,
        kind=str(message.type),
        encrypted=encryption.encrypt(message),
        attempt=attempt,
        retry_delay=pause,
        at=at,
    )


def test_a_delivered_email_is_recorded_with_the_reply_of_the_server(smtp: FakeSmtp) -> None:
    message = an_email()
    deliver(message, attempt=3)
    (received,) = smtp.received
    assert received.message["Subject"] == "987654 is your verification code"
    recorded = Attempt.objects.get()
    assert (recorded.message_id, recorded.user_id, recorded.channel, recorded.kind) == (
        message.id,
        message.user_id,
        "email",
        "reauthenticate",
    )
    assert (recorded.attempt, recorded.outcome, recorded.gateway_id, recorded.error) == (
        3,
        "delivered",
        "2.0.0 Ok: queued as 1",
        "",
    )


def a_notice() -> Email:
    return Email(type=EmailType.PASSWORD_CHANGED, to="ada@example.com", variables={"Email": "ada@example.com"})


def test_notifications_count_against_the_quota_and_are_dropped_beyond_it(
    smtp: FakeSmtp, auth_config: ChangeConfig
) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    deliver(a_notice())
    deliver(a_notice())
    assert len(smtp.received) == 1
    outcomes = Attempt.objects.values_list("outcome", "error").order_by("created_at")
    assert [outcome for outcome, _ in outcomes] == ["delivered", "failed"]
    assert outcomes[1][1] == "email rate limit exceeded"


def test_a_requested_email_is_not_counted_again(smtp: FakeSmtp, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=0)})
    deliver(an_email())
    assert len(smtp.received) == 1


def test_an_unwritable_inbox_causes_no_second_delivery(
    smtp: FakeSmtp, auth_config: ChangeConfig, settings: Settings, tmp_path: Path
) -> None:
    auth_config(mailer={"dev_inbox_enabled": True})
    (tmp_path / "file").touch()
    settings.DEV_INBOX_FOLDER = tmp_path / "file" / "inbox"
    deliver(an_email())
    assert len(smtp.received) == 1
    assert Attempt.objects.get().outcome == "delivered"


def test_a_temporarily_rejected_email_is_retried(smtp: FakeSmtp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mailer.delivery.attempt")
    smtp.replies["RCPT"] = "451 4.2.1 <Ada@Example.com> is busy, code 987654"
    with pytest.raises(jobs.Retry):
        deliver(an_email(expires_at=NOW + timedelta(hours=1)))
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == ("retry", "451 4.2.1 <…> is busy, code …")
    (record,) = caplog.records
    assert (record.levelno, record.msg) == (logging.WARNING, "message not delivered yet")
    assert "ada@example.com" not in str(vars(record)).lower()
    assert "987654" not in str(vars(record))


@pytest.mark.parametrize(
    ("pause", "life", "response", "reason"),
    [
        pytest.param(None, timedelta(hours=1), "450 busy", "450 busy", id="the last pause is over"),
        pytest.param(PAUSE, timedelta(hours=1), "550 no such user", "550 no such user", id="permanent rejection"),
        pytest.param(
            PAUSE,
            timedelta(seconds=9),
            "450 busy",
            "450 busy; expires before another attempt",
            id="it has too little time left",
        ),
        pytest.param(
            PAUSE,
            timedelta(seconds=9),
            f"450 {'x' * 600}",
            f"450 {'x' * 464}; expires before another attempt",
            id="long error",
        ),
    ],
)
def test_a_permanently_rejected_email_fails(
    smtp: FakeSmtp,
    caplog: pytest.LogCaptureFixture,
    pause: timedelta | None,
    life: timedelta,
    response: str,
    reason: str,
) -> None:
    smtp.replies["RCPT"] = response
    with pytest.raises(jobs.PermanentFailure):
        deliver(an_email(expires_at=NOW + life), pause=pause)
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == ("failed", reason)
    assert [(record.levelno, record.msg) for record in caplog.records] == [(logging.ERROR, "message delivery failed")]


@pytest.mark.parametrize(
    ("life", "pause"),
    [
        (None, PAUSE),
        (timedelta(seconds=31), PAUSE),
        (timedelta(seconds=30), timedelta(seconds=15)),
        (timedelta(seconds=10), timedelta(seconds=5)),
    ],
)
def test_a_retry_is_due_before_the_email_expires(smtp: FakeSmtp, life: timedelta | None, pause: timedelta) -> None:
    smtp.replies["RCPT"] = "450 busy"
    with pytest.raises(jobs.Retry) as again:
        deliver(an_email(expires_at=NOW + life if life else None))
    assert again.value.delay == pause


def test_an_expired_email_is_not_sent(smtp: FakeSmtp) -> None:
    with pytest.raises(jobs.PermanentFailure):
        deliver(an_email(expires_at=NOW))
    assert smtp.transmitted == []
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.error) == ("failed", "expired before it could be delivered")


def test_an_undecryptable_email_fails(smtp: FakeSmtp) -> None:
    with pytest.raises(jobs.PermanentFailure):
        delivery.deliver(
            message_id=UUID(int=1),
            channel="email",
            kind="invite",
            encrypted=encryption.encrypt(an_email()),
            attempt=1,
            retry_delay=PAUSE,
            at=NOW,
        )
    recorded = Attempt.objects.get()
    assert (recorded.outcome, recorded.user_id) == ("failed", None)
    assert "JWT_SECRET" in recorded.error


def test_an_unexpected_error_is_recorded_without_its_text(
    smtp: FakeSmtp, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mailer.delivery.attempt")
    auth_config(mailer={"backend": "no.such.Backend"})
    with pytest.raises(jobs.Retry):
        deliver(an_email())
    assert Attempt.objects.get().error == "ModuleNotFoundError"
    assert "sender.py" in vars(caplog.records[0])["stack"]


def test_the_status_of_an_email_service_is_recorded(auth_config: ChangeConfig, mocked_requests: RequestsMock) -> None:
    mocked_requests.post("https://api.postmarkapp.com/email", status=401, json={"Message": "ada@example.com"})
    auth_config(
        mailer={"backend": "anymail.backends.postmark.EmailBackend", "backend_options": {"server_token": "t"}},
        smtp={"admin_email": "noreply@example.com"},
    )
    with pytest.raises(jobs.Retry):
        deliver(an_email())
    assert Attempt.objects.get().error == "AnymailRequestsAPIError: status 401"


def test_without_a_mail_server_an_email_counts_as_delivered(auth_config: ChangeConfig) -> None:
    auth_config(smtp={"host": ""})
    deliver(an_email())
    assert Attempt.objects.get().outcome == "delivered"


def test_the_development_inbox_stores_emails_and_sms(auth_config: ChangeConfig, settings: Any, tmp_path: Path) -> None:
    settings.DEV_INBOX_FOLDER = tmp_path
    auth_config(mailer={"dev_inbox_enabled": True}, smtp={"host": ""})
    email = an_email()
    sms = an_sms()
    deliver(email)
    deliver(sms)
    stored_sms, stored_email = storage.list_messages()
    assert (stored_sms.channel, stored_sms.to, stored_sms.text, stored_sms.message_id) == (
        "sms",
        sms.to,
        "Your code is 987654",
        str(sms.id),
    )
    assert (stored_email.channel, stored_email.to, stored_email.message_id) == ("email", email.to, str(email.id))
    assert "987654" in stored_email.subject


def test_an_sms_without_a_gateway_is_not_delivered(auth_config: ChangeConfig) -> None:
    with pytest.raises(jobs.Retry):
        deliver(an_sms())
    recorded = Attempt.objects.get()
    assert (recorded.channel, recorded.error) == ("sms", "no SMS provider")


def test_a_reply_that_the_database_cannot_store_is_recorded_without_nul(smtp: FakeSmtp) -> None:
    smtp.replies["RCPT"] = "550 5.1.1 no\0such user"
    with pytest.raises(jobs.PermanentFailure):
        deliver(an_email())
    assert Attempt.objects.get().error == "550 5.1.1 no\N{REPLACEMENT CHARACTER}such user"

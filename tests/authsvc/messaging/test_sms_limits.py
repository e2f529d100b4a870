"""Checks before an SMS is accepted: interval, quota and gateway."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from uuid import uuid4

import pytest

from authsvc import conf, messaging
from authsvc.conf import Secret
from authsvc.errors import (
    EmailRateExceeded,
    EmailSentTooRecently,
    SmsGatewayMissing,
    SmsRateExceeded,
    SmsSentTooRecently,
)
from authsvc.messaging import IntervalGroup
from authsvc.models import RateLimit
from tests.conftest import ChangeConfig

SENDER = messaging.Sender(("192.0.2.1",))
TWILIO = conf.Twilio(account_sid="AC1", auth_token=Secret("s"), message_service_sid="MG1")


@pytest.fixture
def number(transactional_db: None) -> str:
    RateLimit.objects.filter(bucket="sms_sent").delete()
    return str(uuid4().int)[:15]


def request_sms(group: IntervalGroup, number: str) -> None:
    with messaging.sms_interval(group, address=number):
        pass


def test_a_second_sms_within_the_interval_is_rejected(number: str, auth_config: ChangeConfig) -> None:
    request_sms(IntervalGroup.PASSWORDLESS, number)
    with pytest.raises(SmsSentTooRecently) as raised:
        request_sms(IntervalGroup.PASSWORDLESS, number)
    error = raised.value
    assert (error.status, error.error_code) == (429, "over_sms_send_rate_limit")
    assert error.retry_after in range(30, 60)
    assert error.message == f"For security purposes, you can only request this after {error.retry_after} seconds."
    request_sms(IntervalGroup.CONFIRMATION, number)
    request_sms(IntervalGroup.PASSWORDLESS, f"{number}0")


def test_the_sms_interval_setting_applies(number: str, auth_config: ChangeConfig) -> None:
    auth_config(sms={"max_frequency": timedelta(minutes=5)}, smtp={"max_frequency": timedelta(hours=1)})
    request_sms(IntervalGroup.CHANGE, number)
    with pytest.raises(SmsSentTooRecently, match=r"after 2\d\d seconds\."):
        request_sms(IntervalGroup.CHANGE, number)
    with (
        pytest.raises(EmailSentTooRecently, match=r"after 35\d\d seconds"),
        messaging.email_interval(IntervalGroup.CHANGE, address=number),
    ):
        pass


@pytest.mark.parametrize("rate", [conf.Rate(events=1), conf.Rate(events=1, over=timedelta(hours=1))])
def test_the_quota_applies_to_all_phones_together(number: str, auth_config: ChangeConfig, rate: conf.Rate) -> None:
    auth_config(limits={"sms_sent": rate})
    messaging.consume_sms_quota(SENDER)
    with pytest.raises(SmsRateExceeded) as raised:
        messaging.consume_sms_quota(SENDER)
    error = raised.value
    assert (error.status, error.error_code, error.message) == (
        429,
        "over_sms_send_rate_limit",
        "SMS rate limit exceeded",
    )
    assert error.retry_after in range(3570, 3601)
    with pytest.raises(SmsRateExceeded) as foreseen:
        messaging.check_sms_quota(SENDER)
    assert foreseen.value.retry_after in range(3570, 3601)


@pytest.mark.parametrize(("wait", "seconds"), [(0.0, 1), (0.2, 1), (1.0, 1), (59.001, 60), (math.inf, None)])
@pytest.mark.parametrize("error", [EmailRateExceeded, SmsRateExceeded])
def test_an_interval_error_states_whole_seconds(
    error: type[EmailRateExceeded | SmsRateExceeded], wait: float, seconds: int | None
) -> None:
    assert error(wait).retry_after == seconds


def test_a_quota_of_zero_rejects_every_sms(number: str, auth_config: ChangeConfig) -> None:
    auth_config(limits={"sms_sent": conf.Rate(events=0)})
    with pytest.raises(SmsRateExceeded) as raised:
        messaging.consume_sms_quota(SENDER)
    assert raised.value.retry_after is None


@pytest.mark.parametrize("events", [0, 1])
def test_the_quota_applies_under_auto_confirm(number: str, auth_config: ChangeConfig, events: int) -> None:
    auth_config(sms={"autoconfirm": True}, limits={"sms_sent": conf.Rate(events=events)})
    for _ in range(events):
        messaging.consume_sms_quota(SENDER)
    with pytest.raises(SmsRateExceeded):
        messaging.consume_sms_quota(SENDER)


@pytest.mark.parametrize(
    ("sms", "dev_inbox", "cause"),
    [
        (conf.Sms(), False, "no SMS provider is set"),
        (conf.Sms(provider="pigeon"), False, 'unknown SMS provider "pigeon"'),
        (conf.Sms(provider="twilio"), False, "missing Twilio account SID"),
        (conf.Sms(provider="twilio_verify", twilio=TWILIO), False, "missing Twilio account SID"),
        (conf.Sms(provider="twilio", twilio=TWILIO), False, ""),
        (conf.Sms(), True, ""),
        (conf.Sms(provider="twilio"), True, ""),
    ],
)
def test_without_a_gateway_an_sms_is_rejected(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, sms: conf.Sms, dev_inbox: bool, cause: str
) -> None:
    sections = {name: getattr(sms, name) for name in ("provider", "twilio", "twilio_verify")}
    auth_config(sms=sections, mailer={"dev_inbox_enabled": dev_inbox})
    if not cause:
        messaging.check_sms_gateway()
        return
    with pytest.raises(SmsGatewayMissing) as raised:
        messaging.check_sms_gateway()
    error = raised.value
    assert (error.status, error.error_code, error.message) == (
        500,
        "unexpected_failure",
        "Unable to get SMS provider",
    )
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert vars(record)["error"] == cause

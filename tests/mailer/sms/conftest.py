"""Fake SMS gateways, and their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Protocol

import pytest
from responses import RequestsMock

from authsvc import conf
from authsvc.conf import Secret
from mailer import sms
from mailer.sms import messagebird, textlocal, twilio, twilio_verify, vonage
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, MockedServer

CREDENTIALS: dict[str, Any] = {
    "twilio": conf.Twilio(account_sid="AC1", auth_token=Secret("hunter2"), message_service_sid="MG1"),
    "twilio_verify": conf.Twilio(account_sid="AC2", auth_token=Secret("hunter2"), message_service_sid="VA1"),
    "messagebird": conf.Messagebird(access_key=Secret("hunter2"), originator="Me"),
    "textlocal": conf.Textlocal(api_key=Secret("hunter2"), sender="ME"),
    "vonage": conf.Vonage(api_key=Secret("key"), api_secret=Secret("hunter2"), sender="Me"),
}


@pytest.fixture
def gateway(mocked_requests: RequestsMock) -> MockedServer:
    """Every SMS gateway, at its own URL."""
    return MockedServer(mocked_requests)


@pytest.fixture
def gateway_peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """Every SMS gateway on loopback, for slow and malformed responses."""
    with HttpPeer() as running:
        for kind in (
            twilio.Twilio,
            twilio_verify.TwilioVerify,
            messagebird.Messagebird,
            textlocal.Textlocal,
            vonage.Vonage,
        ):
            monkeypatch.setattr(kind, "origin", running.url)
        yield running


class UseGateway(Protocol):
    def __call__(self, provider: str, *, timeout_seconds: float = 60, **credentials: str) -> None: ...


@pytest.fixture
def use_gateway(auth_config: ChangeConfig) -> UseGateway:
    """`use_gateway("twilio", content_sid="HX1")` configures a gateway, with some of its credentials replaced."""

    def use(provider: str, *, timeout_seconds: float = 60, **credentials: str) -> None:
        auth_config(
            sms={"provider": provider, provider: dataclasses.replace(CREDENTIALS[provider], **credentials)},
            api={"internal_http_timeout": timedelta(seconds=timeout_seconds)},
        )

    return use


def send(*, to: str = "15551234567", channel: str = "sms", body: str = "Your code is 123456") -> str:
    """Hand one message to the configured gateway."""
    gateway = sms.configured_gateway()
    assert gateway is not None
    return gateway.send(sms.SmsMessage(to=to, channel=channel, body=body, code="123456"))

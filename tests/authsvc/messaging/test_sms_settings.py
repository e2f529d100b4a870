"""SMS settings: the selected gateway, its missing credentials, and test phone numbers with fixed codes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from authsvc import conf
from authsvc.conf import Secret

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TWILIO = {
    "account_sid": "missing Twilio account SID",
    "auth_token": "missing Twilio auth token",
    "message_service_sid": "missing Twilio message service SID or Twilio phone number",
}
NEEDED = {
    "twilio": TWILIO,
    "twilio_verify": TWILIO,
    "messagebird": {"access_key": "missing Messagebird access key", "originator": "missing Messagebird originator"},
    "textlocal": {"api_key": "missing Textlocal API key", "sender": "missing Textlocal sender"},
    "vonage": {
        "api_key": "missing Vonage API key",
        "api_secret": "missing Vonage API secret",
        "sender": "missing Vonage 'from' parameter",
    },
}
SECRETS = {"auth_token", "access_key", "api_key", "api_secret"}
SECTIONS: dict[str, Any] = {
    "twilio": conf.Twilio,
    "twilio_verify": conf.Twilio,
    "messagebird": conf.Messagebird,
    "textlocal": conf.Textlocal,
    "vonage": conf.Vonage,
}


def with_credentials(provider: str, *names: str) -> conf.Sms:
    values = {name: Secret("hunter2") if name in SECRETS else "hunter2" for name in names}
    credentials: Any = {provider: SECTIONS[provider](**values)}
    return conf.Sms(provider=provider, **credentials)


@pytest.mark.parametrize("provider", NEEDED)
def test_a_gateway_with_all_credentials_is_usable(provider: str) -> None:
    sms = with_credentials(provider, *NEEDED[provider])
    assert (sms.is_usable, sms.problem) == (True, "")


@pytest.mark.parametrize("provider", NEEDED)
def test_missing_settings_are_listed_in_order(provider: str) -> None:
    for number, fault in enumerate(NEEDED[provider].values()):
        sms = with_credentials(provider, *list(NEEDED[provider])[:number])
        assert (sms.is_usable, sms.problem) == (False, fault)


@pytest.mark.parametrize("provider", ["", "pigeon", "template", "Twilio"])
def test_an_unknown_gateway_is_not_usable(provider: str) -> None:
    sms = conf.Sms(provider=provider)
    assert not sms.is_usable
    assert provider in sms.problem


def test_credentials_of_another_gateway_are_not_used() -> None:
    assert not conf.Sms(provider="twilio_verify", twilio=with_credentials("twilio", *TWILIO).twilio).is_usable


@pytest.mark.parametrize("provider", NEEDED)
def test_secrets_are_not_shown(provider: str) -> None:
    sms = with_credentials(provider, *SECRETS & set(NEEDED[provider]))
    assert "hunter2" not in repr(sms)
    assert "987654" not in repr(conf.Sms(test_codes={"15551234567": "987654"}))


@pytest.mark.parametrize(
    ("ends_at", "code"),
    [
        (None, "123456"),
        (NOW + timedelta(microseconds=1), "123456"),
        (NOW, None),
        (NOW - timedelta(days=1), None),
    ],
)
def test_a_fixed_code_is_valid_until_it_expires(ends_at: datetime | None, code: str | None) -> None:
    sms = conf.Sms(test_codes={"15551234567": "123456"}, test_codes_end_at=ends_at)
    assert sms.test_code("15551234567", at=NOW) == code
    assert sms.test_code("15551234568", at=NOW) is None

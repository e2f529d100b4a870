"""Validation and normalisation of email addresses and phones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accounts import errors
from accounts.users import identifiers
from authsvc.errors import ApiError

AuthConfig = Callable[..., object]

LABEL = "a" * 63


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("user@example.com", "user@example.com"),
        ("TEST@EXAMPLE.COM", "test@example.com"),
        ("a@localhost", "a@localhost"),
        (".a..b.@x", ".a..b.@x"),
        ("a!#$%&'*+/=?^_`{|}~-9@x-y.co", "a!#$%&'*+/=?^_`{|}~-9@x-y.co"),
        (f"a@{LABEL}.{LABEL}", f"a@{LABEL}.{LABEL}"),
        ("x" * 249 + "@a.bcd", "x" * 249 + "@a.bcd"),
    ],
)
def test_email_is_normalised_to_lower_case(text: str, address: str) -> None:
    assert identifiers.email(text) == address


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", errors.EmailRequired, "An email address is required"),
        ("x" * 250 + "@a.bcd", errors.EmailTooLong, "An email address is too long"),
        ("é" * 128, errors.EmailTooLong, "An email address is too long"),
    ]
    + [
        (text, errors.EmailInvalid, "Unable to validate email address: invalid format")
        for text in (
            *(
                "a",
                "@",
                "a@",
                "@b",
                "a@b@c",
                " a@b.co",
                "a@b.co ",
                "a@b.co\n",
                "a b@c",
                "a@-b.co",
                "a@b-.co",
                "a@b..co",
            ),
            *(
                "a@.b",
                "a@b.",
                "a@b_c",
                f"a@{LABEL}a.co",
                "ä@b.co",
                "a@bü.co",
                "a@b.co\x00",
                '"a"@b.co',
                "a@[127.0.0.1]",
            ),
        )
    ],
)
def test_invalid_email_is_rejected(text: str, error: type[ApiError], message: str) -> None:
    with pytest.raises(error) as refusal:
        identifiers.email(text)
    assert (refusal.value.status, refusal.value.error_code) == (400, "validation_failed")
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+1 23456789 ", "123456789"),
        ("15551234567", "15551234567"),
        ("+1 555 123 45 67", "15551234567"),
        ("12", "12"),
        ("123456789012345", "123456789012345"),
    ],
)
def test_phone_is_normalised_to_digits(text: str, number: str) -> None:
    assert identifiers.phone(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "+", "1", "0123456789", "abc", "1234567890123456", "++123", " +123", "12-34", "123\n", "1\t2", "١٢٣٤"],
)
def test_invalid_phone_is_rejected(text: str) -> None:
    with pytest.raises(errors.PhoneInvalid) as refusal:
        identifiers.phone(text)
    assert (refusal.value.status, refusal.value.error_code) == (400, "validation_failed")
    assert refusal.value.message == "Invalid phone number format (E.164 required)"


@pytest.mark.parametrize(("text", "number"), [("+1 555...", "1555..."), ("abc", "abc"), ("", "")])
def test_phone_is_normalised_without_validation(text: str, number: str) -> None:
    assert identifiers.bare_phone(text) == number


def test_email_is_normalised_without_validation() -> None:
    assert identifiers.lower_email(" No Address") == " no address"


@pytest.mark.parametrize(
    ("provider", "text", "channel"),
    [
        ("vonage", "", "sms"),
        ("vonage", "sms", "sms"),
        ("twilio", "whatsapp", "whatsapp"),
        ("twilio_verify", "whatsapp", "whatsapp"),
    ],
)
def test_a_channel_is_sms_or_one_that_the_gateway_supports(
    auth_config: AuthConfig, provider: str, text: str, channel: str
) -> None:
    auth_config(sms={"provider": provider})
    assert identifiers.channel(text) == channel


@pytest.mark.parametrize(("provider", "text"), [("vonage", "whatsapp"), ("twilio", "invalid"), ("twilio", "SMS")])
def test_other_channel_is_rejected(auth_config: AuthConfig, provider: str, text: str) -> None:
    auth_config(sms={"provider": provider})
    with pytest.raises(errors.ChannelInvalid) as refusal:
        identifiers.channel(text)
    assert (refusal.value.status, refusal.value.error_code) == (400, "validation_failed")

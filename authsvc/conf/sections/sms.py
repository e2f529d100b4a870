"""Settings of SMS and their gateways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from authsvc.conf.declaration import section, setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import BOOLEAN, INTEGER, SECONDS, SECRET, TEST_CODES, TEXT, TIME, WHOLE_SECONDS

DEFAULT_TEXT = "Your code is {{ .Code }}"
"""Of every code message. `mailer` translates it."""
SMS_PROVIDERS = frozenset({"twilio", "twilio_verify", "messagebird", "textlocal", "vonage"})
"""Values of AUTH_SMS_PROVIDER; each is the field of `Sms` with the credentials of the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twilio:
    """An account of the message service or of the verification service of Twilio."""

    account_sid: str = setting("ACCOUNT_SID", type=TEXT, default="", help="Account SID.")
    auth_token: Secret = setting("AUTH_TOKEN", type=SECRET, default=Secret(""), help="Auth token.")
    message_service_sid: str = setting(
        "MESSAGE_SERVICE_SID",
        type=TEXT,
        default="",
        help="Message service SID; for messages also the phone number of the sender.",
    )
    content_sid: str = setting(
        "CONTENT_SID",
        type=TEXT,
        default="",
        help="Approved WhatsApp template; empty = the plain text.",
    )

    @property
    def missing(self) -> str:
        """The first credential that is not set; empty when complete."""
        return _first_missing(
            ("Twilio account SID", self.account_sid),
            ("Twilio auth token", self.auth_token),
            ("Twilio message service SID or Twilio phone number", self.message_service_sid),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Messagebird:
    access_key: Secret = setting("ACCESS_KEY", type=SECRET, default=Secret(""), help="Access key.")
    originator: str = setting("ORIGINATOR", type=TEXT, default="", help="Sender.")

    @property
    def missing(self) -> str:
        return _first_missing(("Messagebird access key", self.access_key), ("Messagebird originator", self.originator))


@dataclass(frozen=True, slots=True, kw_only=True)
class Textlocal:
    api_key: Secret = setting("API_KEY", type=SECRET, default=Secret(""), help="API key.")
    sender: str = setting("SENDER", type=TEXT, default="", help="Sender.")

    @property
    def missing(self) -> str:
        return _first_missing(("Textlocal API key", self.api_key), ("Textlocal sender", self.sender))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vonage:
    api_key: Secret = setting("API_KEY", type=SECRET, default=Secret(""), help="API key.")
    api_secret: Secret = setting("API_SECRET", type=SECRET, default=Secret(""), help="API secret.")
    sender: str = setting("FROM", type=TEXT, default="", help="Sender.")

    @property
    def missing(self) -> str:
        return _first_missing(
            ("Vonage API key", self.api_key),
            ("Vonage API secret", self.api_secret),
            ("Vonage 'from' parameter", self.sender),
        )


def _first_missing(*credentials: tuple[str, object]) -> str:
    return next((name for name, value in credentials if not value), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    autoconfirm: bool = setting(
        "AUTH_SMS_AUTOCONFIRM",
        type=BOOLEAN,
        default=False,
        help="Phone numbers count as confirmed without a message.",
    )
    max_frequency: timedelta = setting(
        "AUTH_SMS_MAX_FREQUENCY",
        type=SECONDS,
        default=timedelta(seconds=60),
        falsy_is_default=True,
        help="Minimum time between two messages to a phone number; 0 = the default.",
    )
    otp_exp: timedelta = setting(
        "AUTH_SMS_OTP_EXP",
        type=WHOLE_SECONDS,
        default=timedelta(seconds=60),
        falsy_is_default=True,
        help="Lifetime of a code; 0 = the default.",
    )
    otp_length: int = setting(
        "AUTH_SMS_OTP_LENGTH",
        type=INTEGER,
        default=6,
        minimum=6,
        maximum=10,
        unit="digits",
        help="Length of a code.",
    )
    provider: str = setting(
        "AUTH_SMS_PROVIDER",
        type=TEXT,
        default="",
        help="Gateway: `twilio`, `twilio_verify`, `messagebird`, `textlocal` or `vonage`.",
        example="twilio",
    )
    template: str = setting(
        "AUTH_SMS_TEMPLATE",
        type=TEXT,
        default=DEFAULT_TEXT,
        falsy_is_default=True,
        help="Text of a code message; `Code` is its only variable.",
    )
    test_codes: Mapping[str, str] = setting(
        "AUTH_SMS_TEST_OTP",
        type=TEST_CODES,
        default={},
        help="Fixed codes of phone numbers, which receive no message.",
        example="15551234567:123456",
    )
    test_codes_end_at: datetime | None = setting(
        "AUTH_SMS_TEST_OTP_VALID_UNTIL",
        type=TIME,
        default=None,
        help="Time at which the fixed codes end; unset = never.",
        example="2030-12-31T23:59:59Z",
    )
    twilio: Twilio = section(Twilio, prefix="AUTH_SMS_TWILIO_")
    twilio_verify: Twilio = section(Twilio, prefix="AUTH_SMS_TWILIO_VERIFY_")
    messagebird: Messagebird = section(Messagebird, prefix="AUTH_SMS_MESSAGEBIRD_")
    textlocal: Textlocal = section(Textlocal, prefix="AUTH_SMS_TEXTLOCAL_")
    vonage: Vonage = section(Vonage, prefix="AUTH_SMS_VONAGE_")

    @property
    def problem(self) -> str:
        """The reason why no message can be sent; empty when messages can be sent."""
        if not self.provider:
            return "no SMS provider is set"
        if self.provider not in SMS_PROVIDERS:
            return f'unknown SMS provider "{self.provider}"'
        missing = getattr(self, self.provider).missing
        return f"missing {missing}" if missing else ""

    @property
    def is_usable(self) -> bool:
        """The provider is known and its credentials are complete."""
        return not self.problem

    @property
    def has_whatsapp(self) -> bool:
        """The provider delivers WhatsApp messages too."""
        return self.provider in ("twilio", "twilio_verify")

    def test_code(self, phone: str, *, at: datetime) -> str | None:
        """The fixed code of a phone number in digits; None when it has none at this time."""
        if self.test_codes_end_at is not None and at >= self.test_codes_end_at:
            return None
        return self.test_codes.get(phone)


def check_sms(sms: Sms, report: SettingsReport) -> None:
    if sms.provider and not sms.is_usable:
        report.warning("AUTH_SMS_PROVIDER", sms.problem)

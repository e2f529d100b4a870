"""Settings of second factors and passkeys."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.sections.sms import DEFAULT_TEXT
from authsvc.conf.value_types import (
    BOOLEAN,
    DURATION,
    FRACTIONAL_SECONDS,
    INTEGER,
    LIST,
    SECONDS,
    TEXT,
    TRUNCATED_NUMBER,
)

_MIN_CHALLENGE_EXPIRY = timedelta(seconds=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfa:
    """Second factors. A switch that is off stops new operations; verified factors keep counting."""

    totp_enroll_enabled: bool = setting(
        "AUTH_MFA_TOTP_ENROLL_ENABLED", type=BOOLEAN, default=True, help="Enrolment of authenticator apps."
    )
    totp_verify_enabled: bool = setting(
        "AUTH_MFA_TOTP_VERIFY_ENABLED", type=BOOLEAN, default=True, help="Verification of authenticator apps."
    )
    phone_enroll_enabled: bool = setting(
        "AUTH_MFA_PHONE_ENROLL_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Enrolment of phones; needs an SMS gateway.",
    )
    phone_verify_enabled: bool = setting(
        "AUTH_MFA_PHONE_VERIFY_ENABLED", type=BOOLEAN, default=False, help="Verification of phones."
    )
    web_authn_enroll_enabled: bool = setting(
        "AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Enrolment of security keys; needs the settings of the WebAuthn relying party.",
    )
    web_authn_verify_enabled: bool = setting(
        "AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED", type=BOOLEAN, default=False, help="Verification of security keys."
    )
    challenge_expiry: timedelta = setting(
        "AUTH_MFA_CHALLENGE_EXPIRY_DURATION",
        type=FRACTIONAL_SECONDS,
        default=timedelta(seconds=300),
        minimum=_MIN_CHALLENGE_EXPIRY,
        help="Lifetime of a challenge.",
    )
    factor_expiry: timedelta = setting(
        "AUTH_MFA_FACTOR_EXPIRY_DURATION",
        type=DURATION,
        default=timedelta(seconds=300),
        minimum=_MIN_CHALLENGE_EXPIRY,
        help="Lifetime of an enrolment that is never challenged.",
    )
    max_enrolled: int = setting(
        "AUTH_MFA_MAX_ENROLLED_FACTORS",
        type=TRUNCATED_NUMBER,
        default=10,
        unit="factors",
        help="Maximum of factors of a user, verified or not.",
    )
    max_verified: int = setting(
        "AUTH_MFA_MAX_VERIFIED_FACTORS",
        type=INTEGER,
        default=10,
        minimum=0,
        unit="factors",
        help="Maximum of verified factors of a user.",
    )
    phone_otp_length: int = setting(
        "AUTH_MFA_PHONE_OTP_LENGTH",
        type=INTEGER,
        default=6,
        minimum=6,
        maximum=10,
        unit="digits",
        help="Length of a code in an SMS.",
    )
    phone_template: str = setting(
        "AUTH_MFA_PHONE_TEMPLATE",
        type=TEXT,
        default=DEFAULT_TEXT,
        falsy_is_default=True,
        help="Text of the message; `Code` is its only variable.",
    )
    phone_max_frequency: timedelta = setting(
        "AUTH_MFA_PHONE_MAX_FREQUENCY",
        type=SECONDS,
        default=timedelta(seconds=60),
        falsy_is_default=True,
        help="Minimum time between two messages of a factor; 0 = the default.",
    )
    recovery_codes_enabled: bool = setting(
        "AUTH_MFA_RECOVERY_CODES_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Users may create recovery codes for lost factors.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkeys:
    enabled: bool = setting(
        "AUTH_PASSKEY_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Registration of and sign-in by passkeys; needs the settings of the WebAuthn relying party.",
    )
    max_per_user: int = setting(
        "AUTH_PASSKEY_MAX_PASSKEYS_PER_USER",
        type=INTEGER,
        default=10,
        minimum=0,
        unit="passkeys",
        help="Maximum of passkeys of a user.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAuthn:
    """The relying party of passkeys and WebAuthn factors."""

    rp_id: str = setting(
        "AUTH_WEBAUTHN_RP_ID",
        type=TEXT,
        default="",
        help="Domain that credentials are bound to.",
        example="example.com",
    )
    rp_display_name: str = setting(
        "AUTH_WEBAUTHN_RP_DISPLAY_NAME",
        type=TEXT,
        default="",
        help="Name of the site in browsers.",
        example="Example",
    )
    rp_origins: tuple[str, ...] = setting(
        "AUTH_WEBAUTHN_RP_ORIGINS",
        type=LIST,
        default=(),
        help="Origins of web pages and apps in which credentials may be used.",
        example="https://app.example.com",
    )
    challenge_expiry: timedelta = setting(
        "AUTH_WEBAUTHN_CHALLENGE_EXPIRY_DURATION",
        type=DURATION,
        default=timedelta(minutes=5),
        falsy_is_default=True,
        minimum=timedelta(),
        help="Lifetime of a passkey challenge; 0 = the default.",
    )

    @property
    def missing(self) -> str:
        """The first required setting that is not set; empty when complete."""
        required = {
            "AUTH_WEBAUTHN_RP_ID": self.rp_id,
            "AUTH_WEBAUTHN_RP_DISPLAY_NAME": self.rp_display_name,
            "AUTH_WEBAUTHN_RP_ORIGINS": self.rp_origins,
        }
        return next((name for name, value in required.items() if not value), "")


def check_webauthn(webauthn: WebAuthn, passkeys: Passkeys, mfa: Mfa, report: SettingsReport) -> None:
    switches = {
        "AUTH_PASSKEY_ENABLED": passkeys.enabled,
        "AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED": mfa.web_authn_enroll_enabled,
        "AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED": mfa.web_authn_verify_enabled,
    }
    enabled = [name for name, is_enabled in switches.items() if is_enabled]
    if enabled and importlib.util.find_spec("webauthn") is None:
        report.error(enabled[0], "needs the extra passkeys: pip install -r requirements.server.lock")
    if enabled and webauthn.missing:
        error = f"conf: {webauthn.missing} is required when WebAuthn is enabled"
        report.warning(webauthn.missing, "WebAuthn configuration is invalid", error=error)

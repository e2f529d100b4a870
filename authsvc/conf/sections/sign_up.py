"""Settings of sign-up, passwords, one-time codes, captcha and rate limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from authsvc import __version__
from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Rate, Secret
from authsvc.conf.value_types import (
    BOOLEAN,
    CHARACTER_SETS,
    COUNT,
    DURATION,
    INTEGER,
    NUMBER,
    RATE,
    STRIPPED_SECRET,
    TEXT,
    ValueType,
)

_CAPTCHA_PROVIDERS = ("hcaptcha", "turnstile")
# Together at most 128 MiB in each process.
_MAX_BLOOM_ITEMS = 10_000_000
_MIN_FALSE_POSITIVES = 1e-12
# Access tokens contain both kinds of metadata, and proxies limit the size of headers.
_MAX_METADATA = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Signup:
    disabled: bool = setting(
        "AUTH_DISABLE_SIGNUP",
        type=BOOLEAN,
        default=False,
        help="Refuse sign-up. Administrators can still create and invite users.",
    )
    email_enabled: bool = setting(
        "AUTH_EXTERNAL_EMAIL_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Sign-up and sign-in by email address.",
    )
    phone_enabled: bool = setting(
        "AUTH_EXTERNAL_PHONE_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-up and sign-in by phone number.",
    )
    anonymous_enabled: bool = setting(
        "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-in of anonymous users.",
    )
    magic_link_enabled: bool = setting(
        "AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Sign-in by a mailed link or code.",
    )
    manual_linking_enabled: bool = setting(
        "AUTH_SECURITY_MANUAL_LINKING_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Users may link and unlink identities themselves.",
    )
    strict_privacy_enabled: bool = setting(
        "AUTH_SECURITY_STRICT_PRIVACY_ENABLED",
        type=BOOLEAN,
        default=False,
        help="No response reveals whether an account exists, even where clients of other servers expect it.",
    )
    duplicate_empty_identities_enabled: bool = setting(
        "AUTH_SIGNUP_DUPLICATE_EMPTY_IDENTITIES_ENABLED",
        type=BOOLEAN,
        default=False,
        help="A sign-up with the address of an account returns an empty list of identities, which reveals the account.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    max_user_bytes: int = setting(
        "AUTH_USER_METADATA_MAX_BYTES",
        type=INTEGER,
        default=16_384,
        minimum=1_024,
        maximum=_MAX_METADATA,
        unit="bytes",
        help="Maximum size of the user metadata of an account, and of the data of each identity.",
        since="0.2.0",
    )
    max_app_bytes: int = setting(
        "AUTH_APP_METADATA_MAX_BYTES",
        type=INTEGER,
        default=16_384,
        minimum=1_024,
        maximum=_MAX_METADATA,
        unit="bytes",
        help="Maximum size of the app metadata of an account.",
        since="0.2.0",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    min_length: int = setting(
        "AUTH_PASSWORD_MIN_LENGTH",
        type=INTEGER,
        default=6,
        minimum=6,
        maximum=72,  # bytes, the longest password that is accepted
        unit="characters",
        help="Minimum length of a password, in Unicode code points.",
    )
    required_characters: tuple[str, ...] = setting(
        "AUTH_PASSWORD_REQUIRED_CHARACTERS",
        type=CHARACTER_SETS,
        default=(),
        help="Sets of characters; a password needs one character of each. `\\:` is a colon inside a set.",
        example="abcdefghijklmnopqrstuvwxyz:0123456789",
    )
    update_requires_reauthentication: bool = setting(
        "AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION",
        type=BOOLEAN,
        default=False,
        help="A new password, email address or phone needs the code of `GET /reauthenticate`.",
    )
    reauthentication_interval: timedelta = setting(
        "AUTH_SECURITY_REAUTHENTICATION_INTERVAL",
        type=DURATION,
        default=timedelta(),
        minimum=timedelta(),
        help="Sessions younger than this need no such code; 0 = every session needs one.",
        example="24h",
    )
    update_requires_current: bool = setting(
        "AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD",
        type=BOOLEAN,
        default=False,
        help="A new password, email address or phone needs the current password.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaches:
    """The look-up of passwords that are known from breaches."""

    enabled: bool = setting(
        "AUTH_PASSWORD_HIBP_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Refuse passwords known from breaches; sends five characters of a hash to api.pwnedpasswords.com.",
    )
    fail_closed: bool = setting(
        "AUTH_PASSWORD_HIBP_FAIL_CLOSED",
        type=BOOLEAN,
        default=False,
        help="Refuse every new password while the look-up fails, instead of accepting it with a warning.",
    )
    user_agent: str = setting(
        "AUTH_PASSWORD_HIBP_USER_AGENT",
        type=TEXT,
        default=f"authsvc/{__version__}",
        falsy_is_default=True,
        help="User agent of the look-up.",
    )
    bloom_enabled: bool = setting(
        "AUTH_PASSWORD_HIBP_BLOOM_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Remember breached passwords in a Bloom filter in memory to save look-ups.",
    )
    bloom_items: int = setting(
        "AUTH_PASSWORD_HIBP_BLOOM_ITEMS",
        type=COUNT,
        default=100_000,
        unit="hashes",
        help="Capacity of the filter.",
    )
    bloom_false_positives: float = setting(
        "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES",
        type=NUMBER,
        default=0.0000099,
        unit="share",
        help="Rate of false positives of a full filter.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeCodes:
    max_attempts: int = setting(
        "AUTH_SECURITY_OTP_MAX_ATTEMPTS",
        type=COUNT,
        default=10,
        unit="attempts",
        help="Wrong attempts after which a one-time code becomes invalid; 0 = no limit.",
    )
    max_failed_attempts: int = setting(
        "AUTH_SECURITY_MAX_FAILED_ATTEMPTS_PER_ACCOUNT",
        type=COUNT,
        default=100,
        unit="attempts",
        help="Wrong passwords and codes of an account in 24 hours, after which it accepts correct ones only from"
        " addresses of earlier sign-ins, until a link in an email is opened or an administrator resets the count;"
        " 0 = no limit.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Captcha:
    enabled: bool = setting(
        "AUTH_SECURITY_CAPTCHA_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-up, password sign-in and requests for messages need a solved captcha.",
    )
    provider: str = setting(
        "AUTH_SECURITY_CAPTCHA_PROVIDER",
        type=ValueType("choice", str.lower, "`hcaptcha` or `turnstile`"),
        default="hcaptcha",
        help="Captcha service.",
    )
    secret: Secret = setting(
        "AUTH_SECURITY_CAPTCHA_SECRET",
        type=STRIPPED_SECRET,
        default=Secret(""),
        help="Secret of the captcha service.",
    )
    site_key: str = setting(
        "AUTH_SECURITY_CAPTCHA_SITE_KEY",
        type=TEXT,
        default="",
        help="Public key of the captcha service, for the hosted pages and the console's sign-in page; without it,"
        " sign-in there is impossible while captchas are enabled.",
        example="10000000-ffff-ffff-ffff-000000000001",
    )
    timeout: timedelta = setting(
        "AUTH_SECURITY_CAPTCHA_TIMEOUT",
        type=DURATION,
        default=timedelta(seconds=10),
        falsy_is_default=True,
        minimum=timedelta(),
        help="Timeout of the verification call; 0 = the default.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    header: str = setting(
        "AUTH_RATE_LIMIT_HEADER",
        type=TEXT,
        default="",
        help="Request header whose value identifies a client for request limits; empty = the client address.",
        example="X-Real-IP",
    )
    email_sent: Rate = setting(
        "AUTH_RATE_LIMIT_EMAIL_SENT",
        type=RATE,
        default=Rate(events=30),
        help="Emails of the whole service: `N` in the hour that the first of them starts, or `N/D`: N at once, then one"
        " each D. One client or user may use a tenth, at least one; administrators have a quota of the same size of"
        " their own.",
        example="10/1h",
    )
    sms_sent: Rate = setting(
        "AUTH_RATE_LIMIT_SMS_SENT",
        type=RATE,
        default=Rate(events=30),
        help="Text messages of the whole service; shares as for emails.",
    )
    operator_messages: Rate = setting(
        "AUTH_RATE_LIMIT_OPERATOR_MESSAGES",
        type=RATE,
        default=Rate(events=1000),
        help="Emails that operators may send in the console, and as many SMS; form as for"
        " `AUTH_RATE_LIMIT_EMAIL_SENT`. They do not count against the quotas of clients and administrators.",
        example="1000",
    )
    verify: float = setting(
        "AUTH_RATE_LIMIT_VERIFY",
        type=NUMBER,
        default=30,
        help="Redeemed links and codes of a client per five minutes, after a burst of 30.",
    )
    token_refresh: float = setting(
        "AUTH_RATE_LIMIT_TOKEN_REFRESH",
        type=NUMBER,
        default=150,
        help="Requests of a client for tokens per five minutes, after a burst of 30; the same for its sign-ins started"
        " at providers, for callbacks, and for authorization requests of applications.",
    )
    otp: float = setting(
        "AUTH_RATE_LIMIT_OTP",
        type=NUMBER,
        default=30,
        help="Requests of a client for messages, sign-ups and changes per five minutes, after a burst of 30; each kind"
        " of request counts separately.",
    )
    anonymous_users: float = setting(
        "AUTH_RATE_LIMIT_ANONYMOUS_USERS",
        type=NUMBER,
        default=30,
        help="Anonymous sign-ins of a client per hour, after a burst of the same number; 0 refuses all.",
    )
    factors: float = setting(
        "AUTH_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY",
        type=NUMBER,
        default=15,
        help="Challenges of factors of a client per minute, after a burst of 30, and as many verifications.",
    )
    passkey: float = setting(
        "AUTH_RATE_LIMIT_PASSKEY",
        type=NUMBER,
        default=30,
        help="Sign-ins by passkey of a client per five minutes, after a burst of 30.",
    )
    web3: float = setting(
        "AUTH_RATE_LIMIT_WEB3",
        type=NUMBER,
        default=30,
        help="Sign-ins by wallet of a client per five minutes, after a burst of 30.",
    )
    oauth_registration: float = setting(
        "AUTH_RATE_LIMIT_OAUTH_DYNAMIC_CLIENT_REGISTER",
        "AUTH_RATE_LIMIT_O_AUTH_DYNAMIC_CLIENT_REGISTER",
        type=NUMBER,
        default=10,
        help="Applications that a client registers with the OAuth server per five minutes, after a burst of 30.",
    )


def check_breaches(breaches: Breaches, report: SettingsReport) -> None:
    if not breaches.bloom_enabled:
        return
    if not 0 < breaches.bloom_items <= _MAX_BLOOM_ITEMS:
        report.error("AUTH_PASSWORD_HIBP_BLOOM_ITEMS", f"must be between 1 and {_MAX_BLOOM_ITEMS}")
    if not _MIN_FALSE_POSITIVES <= breaches.bloom_false_positives < 1:
        report.error(
            "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES", f"must be at least {_MIN_FALSE_POSITIVES} and less than 1"
        )


def check_captcha(captcha: Captcha, report: SettingsReport, *, has_console: bool, has_pages: bool) -> None:
    if not captcha.enabled:
        return
    if captcha.provider not in _CAPTCHA_PROVIDERS:
        report.error(
            "AUTH_SECURITY_CAPTCHA_PROVIDER",
            f"unsupported captcha provider: {captcha.provider}; use {' or '.join(_CAPTCHA_PROVIDERS)}",
        )
    if not captcha.secret:
        report.error("AUTH_SECURITY_CAPTCHA_SECRET", "captcha provider secret is empty")
    if has_console and not captcha.site_key:
        report.warning(
            "AUTH_SECURITY_CAPTCHA_SITE_KEY",
            "no operator can sign in to the console, because its captcha has no site key; set the site key",
        )
    if has_pages and not captcha.site_key:
        report.warning(
            "AUTH_SECURITY_CAPTCHA_SITE_KEY",
            "no user can sign in on the hosted pages, because their captcha has no site key; set the site key",
        )

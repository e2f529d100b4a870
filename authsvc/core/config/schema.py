"""The settings of the service as frozen, typed values, each with its default and unit.

One section per concern. Nothing here reads the environment (`env.py`) or judges combinations (`rules.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from authsvc import __version__
from authsvc.core.deprecations import Notice

Network = IPv4Network | IPv6Network

SMS_PROVIDERS = frozenset({"twilio", "twilio_verify", "messagebird", "textlocal", "vonage"})
"""Values of SMS_PROVIDER; each names the field of `Sms` with its credentials."""
TRUSTED_PROXIES_DEFAULT = "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"


class Secret:
    """A text that no `repr`, log line or traceback shows; `reveal()` is the only way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret('')"

    __str__ = __repr__


class Server(StrEnum):
    GRANIAN = "granian"
    GUNICORN = "gunicorn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    url: str
    allow_list: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    external_url: str
    host: str = ""
    port: int = 8081
    request_id_header: str = ""
    max_request_duration: timedelta = timedelta(seconds=10)
    internal_http_timeout: timedelta = timedelta(seconds=10)
    """For a whole call to an SMS gateway or a sign-in provider."""
    cors_allowed_headers: tuple[str, ...] = ()
    forwarded_for_enabled: bool = False
    trusted_proxies: tuple[Network, ...] = field(
        default_factory=lambda: tuple(ip_network(text) for text in TRUSTED_PROXIES_DEFAULT.split(","))
    )
    server: Server = Server.GRANIAN
    processes: int = 0
    """Serving processes (WEB_CONCURRENCY); 0 = one per core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signup:
    disabled: bool = False
    email_enabled: bool = True
    phone_enabled: bool = False
    anonymous_enabled: bool = False
    magic_link_enabled: bool = True
    manual_linking_enabled: bool = False
    strict_privacy_enabled: bool = False
    """Answers tell nothing of an account even where clients of other servers expect them to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    min_length: int = 6
    """Bytes of UTF-8; never below 6."""
    required_characters: tuple[str, ...] = ()
    update_requires_reauthentication: bool = False
    update_requires_current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaches:
    """The look-up of passwords among those known from breaches (PASSWORD_HIBP_*)."""

    enabled: bool = False
    fail_closed: bool = False
    """Refuse passwords while the look-up fails, instead of accepting them with a warning."""
    user_agent: str = f"authsvc/{__version__}"
    bloom_enabled: bool = False
    bloom_items: int = 100_000
    """Hashes that the memory of found ones is made for."""
    bloom_false_positives: float = 0.0000099
    """Share of unknown passwords that a full memory would take for known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    rotation_enabled: bool = True
    reuse_interval: timedelta = timedelta(seconds=10)
    allow_reuse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    timebox: timedelta | None = None
    inactivity_timeout: timedelta | None = None
    allow_low_aal: timedelta | None = None
    single_per_user: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeCodes:
    max_attempts: int = 10
    """Wrong codes after which a code is dead; 0 = no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    expiry: timedelta = timedelta(seconds=300)
    """Life of PKCE codes and OAuth state; never below 300 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    url: Secret
    namespace: str = ""
    max_pool_size: int = 0
    prepared_statements_enabled: bool = True
    encrypt: bool = False
    encryption_key_id: str = ""
    encryption_key: Secret = field(default_factory=lambda: Secret(""))
    decryption_keys: Mapping[str, Secret] = field(default_factory=dict)
    cleanup_enabled: bool = False
    """Remove what has expired or was abandoned, every minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    level: str = "info"
    """`panic`, `fatal`, `error`, `warning`, `info`, `debug` or `trace`."""
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    disable_postgres: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    tracing_enabled: bool = False
    tracing_exporter: str = "opentelemetry"
    metrics_enabled: bool = False
    metrics_exporter: str = "opentelemetry"
    prometheus_host: str = "0.0.0.0"  # noqa: S104  (the seed's default of the metrics listener)
    prometheus_port: int = 9100
    debug: bool = False
    resource_attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    enabled: bool = False
    client_ids: tuple[str, ...] = ()
    secret: Secret = field(default_factory=lambda: Secret(""))
    redirect_uri: str = ""
    url: str = ""
    """Without a trailing slash; empty = the provider's own address."""
    email_optional: bool = False
    skip_nonce_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Sign-in through others, beyond what each provider has of its own."""

    redirect_url: str = ""
    """Where everybody is sent after a callback, whatever they asked for; empty = where they asked."""
    ios_bundle_id: str = ""
    """A further audience that ID tokens of Apple may have."""
    id_token_issuers: tuple[str, ...] = ("https://appleid.apple.com", "https://accounts.google.com")
    """Issuers whose ID tokens are taken for an audience that the client names."""
    discovery_max_age: timedelta = timedelta(hours=1)
    linking_domains: Mapping[str, str] = field(default_factory=dict)
    """Provider → the domain within which its identities find one another's accounts; others are in `default`."""
    flow_binding_enabled: bool = False
    """A callback is taken from the browser alone in which its flow began, known by a cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProviders:
    """Providers that administrators define while the service runs."""

    enabled: bool = True
    most: int = 0
    """How many there may be; 0 = any number."""
    external_url: str = ""
    """Address of this service in their callback; empty = that of the API."""
    private_networks_enabled: bool = False
    """Whether they may be inside the operator's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smtp:
    admin_email: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: Secret = field(default_factory=lambda: Secret(""))
    sender_name: str = ""
    max_frequency: timedelta | None = None
    """None: the split default, 900 s for confirmations and 60 s for everything else."""
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    logging_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailer:
    autoconfirm: bool = False
    allow_unverified_email_sign_ins: bool = False
    secure_email_change_enabled: bool = True
    """A change of address is confirmed by both addresses."""
    otp_exp: timedelta = timedelta(seconds=86400)
    otp_length: int = 6
    url_paths: Mapping[str, str] = field(default_factory=dict)
    """`invite`, `confirmation`, `recovery`, `email_change` → path; a missing one is `/verify`."""
    subjects: Mapping[str, str] = field(default_factory=dict)
    """Mail kind in lower case (`magic_link`, `password_changed_notification` …) → subject; only those set."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Mail kind in lower case → template URL; only those set."""
    notifications: frozenset[str] = frozenset()
    """Notices switched on: `password_changed`, `email_changed`, `phone_changed`, `identity_linked` …"""
    external_hosts: tuple[str, ...] = ()
    backend: str = ""
    """Dotted name of a Django e-mail back end (anymail's, say) to use instead of SMTP."""
    backend_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dev_inbox_enabled: bool = False
    dev_inbox_folder: str = ""
    """Where the development inbox keeps what it is sent; empty = `.data/inbox` of the checkout."""
    worker_enabled: bool = True
    """Run the message worker inside every serving process."""
    template_max_size: int = 1_000_000
    """Bytes used of a fetched template."""
    template_max_age: timedelta = timedelta(minutes=10)
    template_retry_interval: timedelta = timedelta(seconds=10)
    template_reloading_enabled: bool = False
    template_reloading_max_idle: timedelta = timedelta(minutes=20)
    generate_link_invite_enabled: bool = True
    """Mail the invitations whose links administrators have made."""
    link_confirm_page_enabled: bool = False
    """A mailed link opens a page whose button redeems it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """To whom mail may be sent at all."""

    authorized_addresses: tuple[str, ...] = ()
    """The only ones that are mailed; none = everybody."""
    extended_validation: bool = False
    """Check the form of addresses and whether their hosts take mail."""
    service_url: str = ""
    """Who is asked whether an address is a good one; empty = nobody."""
    service_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    blocked_exchangers: frozenset[str] = frozenset()
    """Hosts and addresses in lower case, without a dot at the end, that no mail goes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twilio:
    """The account of Twilio's messages or of its verification service."""

    account_sid: str = field(default="", repr=False)
    auth_token: Secret = field(default_factory=lambda: Secret(""))
    message_service_sid: str = ""
    """Of messages it may be a sender's number instead."""
    content_sid: str = ""
    """The approved WhatsApp template; empty = the text as it is."""

    @property
    def missing(self) -> str:
        """The first thing needed and not there; empty when complete."""
        return _first_missing(
            ("Twilio account SID", self.account_sid),
            ("Twilio auth token", self.auth_token),
            ("Twilio message service SID or Twilio phone number", self.message_service_sid),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Messagebird:
    access_key: Secret = field(default_factory=lambda: Secret(""))
    originator: str = ""

    @property
    def missing(self) -> str:
        return _first_missing(("Messagebird access key", self.access_key), ("Messagebird originator", self.originator))


@dataclass(frozen=True, slots=True, kw_only=True)
class Textlocal:
    api_key: Secret = field(default_factory=lambda: Secret(""))
    sender: str = ""

    @property
    def missing(self) -> str:
        return _first_missing(("Textlocal API key", self.api_key), ("Textlocal sender", self.sender))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vonage:
    api_key: Secret = field(default_factory=lambda: Secret(""))
    api_secret: Secret = field(default_factory=lambda: Secret(""))
    sender: str = ""

    @property
    def missing(self) -> str:
        return _first_missing(
            ("Vonage API key", self.api_key),
            ("Vonage API secret", self.api_secret),
            ("Vonage 'from' parameter", self.sender),
        )


def _first_missing(*needed: tuple[str, object]) -> str:
    return next((name for name, value in needed if not value), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    autoconfirm: bool = False
    max_frequency: timedelta = timedelta(seconds=60)
    otp_exp: timedelta = timedelta(seconds=60)
    otp_length: int = 6
    provider: str = ""
    template: str = "Your code is {{ .Code }}"
    """Text of a code message; `Code` is its only variable."""
    test_codes: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Digits of a number → the code it always has; nothing is sent to it."""
    test_codes_end_at: datetime | None = None
    """None: they have no end."""
    twilio: Twilio = field(default_factory=Twilio)
    twilio_verify: Twilio = field(default_factory=Twilio)
    messagebird: Messagebird = field(default_factory=Messagebird)
    textlocal: Textlocal = field(default_factory=Textlocal)
    vonage: Vonage = field(default_factory=Vonage)

    @property
    def fault(self) -> str:
        """Why nothing can be sent; empty when something can."""
        if not self.provider:
            return "no SMS provider is set"
        if self.provider not in SMS_PROVIDERS:
            return f'unknown SMS provider "{self.provider}"'
        missing = getattr(self, self.provider).missing
        return f"missing {missing}" if missing else ""

    @property
    def is_usable(self) -> bool:
        """Whether the provider is known and its credentials are complete."""
        return not self.fault

    def test_code(self, phone: str, *, at: datetime) -> str | None:
        """The fixed code of a number, given in digits; None when it has none at this time."""
        if self.test_codes_end_at is not None and at >= self.test_codes_end_at:
            return None
        return self.test_codes.get(phone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mfa:
    """Second factors. A switch that is off stops new operations; what is verified keeps counting."""

    totp_enroll_enabled: bool = True
    totp_verify_enabled: bool = True
    phone_enroll_enabled: bool = False
    phone_verify_enabled: bool = False
    web_authn_enroll_enabled: bool = False
    web_authn_verify_enabled: bool = False
    challenge_expiry: timedelta = timedelta(seconds=300)
    """Life of a challenge; never below 300 s."""
    factor_expiry: timedelta = timedelta(seconds=300)
    """Life of an enrolment that was never challenged; never below 300 s."""
    max_enrolled: int = 10
    max_verified: int = 10
    phone_otp_length: int = 6
    phone_template: str = "Your code is {{ .Code }}"
    phone_max_frequency: timedelta = timedelta(seconds=60)
    recovery_codes_enabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkeys:
    enabled: bool = False
    max_per_user: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAuthn:
    """The relying party of passkeys and of WebAuthn factors."""

    rp_id: str = ""
    """The domain that credentials are bound to."""
    rp_display_name: str = ""
    rp_origins: tuple[str, ...] = ()
    """Where credentials may be used: origins of web pages, and those of apps as their systems write them."""
    challenge_expiry: timedelta = timedelta(minutes=5)
    """Of passkeys; challenges of factors live as long as those of any factor."""

    @property
    def missing(self) -> str:
        """The first setting needed and not there; empty when complete."""
        return _first_missing(
            ("WEBAUTHN_RP_ID", self.rp_id),
            ("WEBAUTHN_RP_DISPLAY_NAME", self.rp_display_name),
            ("WEBAUTHN_RP_ORIGINS", self.rp_origins),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Captcha:
    enabled: bool = False
    provider: str = "hcaptcha"
    """`hcaptcha` or `turnstile`."""
    secret: Secret = field(default_factory=lambda: Secret(""))
    timeout: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    secret: Secret
    exp: timedelta = timedelta(seconds=3600)
    aud: str = ""
    issuer: str = ""
    admin_roles: tuple[str, ...] = ("service_role", "svc_admin")
    admin_group_name: str = "admin"
    default_group_name: str = ""
    keys: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """JSON Web Keys (RFC 7517) as given in JWT_KEYS."""
    key_id: str = ""
    valid_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A message limit: `events` per hour in a fixed window, or a bucket of `events` refilled by one each `over`."""

    events: int
    over: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    header: str = ""
    email_sent: Rate = field(default_factory=lambda: Rate(events=30))
    sms_sent: Rate = field(default_factory=lambda: Rate(events=30))
    verify: float = 30
    token_refresh: float = 150
    otp: float = 30
    anonymous_users: float = 30
    factors: float = 15
    """A minute, for challenges of factors and for their verification each."""
    passkey: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The operator console at /operator/."""

    enabled: bool = True
    allowed_networks: tuple[Network, ...] = ()
    """Client addresses that may reach it; empty = any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWorker:
    """Indexes that make the search for users by part of an address or name quick."""

    ensure_user_search: bool = False
    max_users: int = 0
    """Build them as long as there are no more users than this, also when not asked to ensure them; 0 = never."""

    @property
    def is_on(self) -> bool:
        return self.ensure_user_search or self.max_users > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experimental:
    """Habits of other servers that few installations want."""

    cursor_pagination_enabled: bool = False
    """The list of users goes by cursor, without totals, where no page is asked for."""
    email_identity_on_password_enabled: bool = False
    """A first password that an administrator sets also makes an identity by email."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Everything an operator can set, read once at start and swapped as a whole on reload."""

    site: Site
    api: Api
    database: Database
    jwt: Jwt
    signup: Signup = field(default_factory=Signup)
    passwords: Passwords = field(default_factory=Passwords)
    breaches: Breaches = field(default_factory=Breaches)
    refresh: Refresh = field(default_factory=Refresh)
    sessions: Sessions = field(default_factory=Sessions)
    codes: OneTimeCodes = field(default_factory=OneTimeCodes)
    flows: Flows = field(default_factory=Flows)
    logging: Logging = field(default_factory=Logging)
    audit: Audit = field(default_factory=Audit)
    telemetry: Telemetry = field(default_factory=Telemetry)
    providers: Mapping[str, Provider] = field(default_factory=dict)
    federation: Federation = field(default_factory=Federation)
    custom_providers: CustomProviders = field(default_factory=CustomProviders)
    smtp: Smtp = field(default_factory=Smtp)
    mailer: Mailer = field(default_factory=Mailer)
    recipients: Recipients = field(default_factory=Recipients)
    sms: Sms = field(default_factory=Sms)
    mfa: Mfa = field(default_factory=Mfa)
    passkeys: Passkeys = field(default_factory=Passkeys)
    webauthn: WebAuthn = field(default_factory=WebAuthn)
    captcha: Captcha = field(default_factory=Captcha)
    limits: Limits = field(default_factory=Limits)
    console: Console = field(default_factory=Console)
    index_worker: IndexWorker = field(default_factory=IndexWorker)
    experimental: Experimental = field(default_factory=Experimental)
    notices: tuple[Notice, ...] = ()
    """What the log should say about these settings at start and after a reload."""

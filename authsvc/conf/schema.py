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
from authsvc.conf.deprecations import Notice

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
    """The site that users come from: base of links, and where they are sent when nothing else is said."""
    allow_list: tuple[str, ...] = ()
    """Patterns of further addresses that users may be sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    external_url: str
    """Where this service is reached from outside."""
    host: str = ""
    """Address to listen on; empty = all of them. Needs a restart."""
    port: int = 8081
    """Port to listen on. Needs a restart."""
    request_id_header: str = ""
    """Header that a proxy puts the id of a request into; empty = ids are made here."""
    max_request_duration: timedelta = timedelta(seconds=10)
    """A request that took longer is answered 504; 0 = no limit."""
    internal_http_timeout: timedelta = timedelta(seconds=10)
    """For a whole call to an SMS gateway or a sign-in provider."""
    cors_allowed_headers: tuple[str, ...] = ()
    """Further request headers that browsers of other origins may send."""
    forwarded_for_enabled: bool = False
    """Believe `Svc-Forwarded-For`, which a program of the operator's sends, about the client's address."""
    trusted_proxies: tuple[Network, ...] = field(
        default_factory=lambda: tuple(ip_network(text) for text in TRUSTED_PROXIES_DEFAULT.split(","))
    )
    """Networks of proxies whose `X-Forwarded-For` is believed."""
    server: Server = Server.GRANIAN
    """`granian` or `gunicorn`. Needs a restart."""
    processes: int = 0
    """Serving processes; 0 = one per core. Needs a restart."""
    docs_enabled: bool = False
    """Show the description of the API as a page at `/docs`; it is there with the development inbox too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signup:
    disabled: bool = False
    """Nobody signs up; administrators can still make and invite users."""
    email_enabled: bool = True
    """Sign-up and sign-in by email address."""
    phone_enabled: bool = False
    """Sign-up and sign-in by phone number."""
    anonymous_enabled: bool = False
    """Sign-in of visitors who say nothing of themselves."""
    magic_link_enabled: bool = True
    """Sign-in by a mailed link or code."""
    manual_linking_enabled: bool = False
    """Users may link and unlink identities themselves."""
    strict_privacy_enabled: bool = False
    """Answers tell nothing of an account even where clients of other servers expect them to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    min_length: int = 6
    """Bytes of UTF-8; never below 6."""
    required_characters: tuple[str, ...] = ()
    """Sets of characters, between colons, of each of which a password needs one; `\\:` is a colon."""
    update_requires_reauthentication: bool = False
    """A new password needs a mailed code when the session is older than 24 hours."""
    update_requires_current: bool = False
    """A new password needs the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaches:
    """The look-up of passwords among those known from breaches (PASSWORD_HIBP_*)."""

    enabled: bool = False
    """Refuse passwords that are known from breaches."""
    fail_closed: bool = False
    """Refuse passwords while the look-up fails, instead of accepting them with a warning."""
    user_agent: str = f"authsvc/{__version__}"
    """What the look-up calls itself."""
    bloom_enabled: bool = False
    """Remember found passwords in memory, and ask less."""
    bloom_items: int = 100_000
    """Hashes that the memory of found ones is made for."""
    bloom_false_positives: float = 0.0000099
    """Share of unknown passwords that a full memory would take for known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    rotation_enabled: bool = True
    """A refresh token is good for one refresh; using an older one ends the session."""
    reuse_interval: timedelta = timedelta(seconds=10)
    """How long the token before the last one still gives the same new one."""
    allow_reuse: bool = False
    """Any older refresh token of a session gives its newest one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    timebox: timedelta | None = None
    """Longest life of a session; unset = without end."""
    inactivity_timeout: timedelta | None = None
    """Longest pause between two refreshes; unset = any."""
    allow_low_aal: timedelta | None = None
    """How long a session without the second factor holds for a user who has one; unset = without end."""
    single_per_user: bool = False
    """A new session ends those before it."""
    tags: tuple[str, ...] = ()
    """With `SESSIONS_SINGLE_PER_USER`: kinds of sessions, of each of which a user has one."""


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
    """`postgres://user:password@host:5432/name`, or `embedded:<folder>` for a private PostgreSQL. Needs a restart."""
    namespace: str = ""
    """Put in front of every table, with an underscore: several installations in one database. Needs a restart."""
    max_pool_size: int = 0
    """Most connections of all processes together; 0 = no limit."""
    prepared_statements_enabled: bool = True
    """Off for a pooler in transaction mode. Needs a restart."""
    encrypt: bool = False
    """Encrypt passwords, keys of sessions and secrets of factors in the database."""
    encryption_key_id: str = ""
    """Name of the key to encrypt with."""
    encryption_key: Secret = field(default_factory=lambda: Secret(""))
    """That key: 32 bytes in base64 for URLs, without `=` at the end."""
    decryption_keys: Mapping[str, Secret] = field(default_factory=dict)
    """`name:key` for every key that something may be encrypted with."""
    cleanup_enabled: bool = False
    """Remove what has expired or was abandoned, every minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    level: str = "info"
    """`panic`, `fatal`, `error`, `warning`, `info`, `debug` or `trace`. Needs a restart."""
    file: str = ""
    """Where the log goes; empty = standard error. Needs a restart."""
    sql: str = "none"
    """Which part of statements is logged: `none`, `statement` for the text, `all` for the arguments too, texts among
    them told by their length alone. Needs a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    disable_postgres: bool = False
    """Keep the audit trail in the log alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    tracing_enabled: bool = False
    """Export traces. Needs a restart."""
    tracing_exporter: str = "opentelemetry"
    """`opentelemetry`. Needs a restart."""
    metrics_enabled: bool = False
    """Export metrics. Needs a restart."""
    metrics_exporter: str = "opentelemetry"
    """`opentelemetry` or `prometheus`. Needs a restart."""
    prometheus_host: str = "0.0.0.0"  # noqa: S104  (documented: a scraper is elsewhere)
    """Address of the listener for Prometheus. Needs a restart."""
    prometheus_port: int = 9100
    """Port of the listener for Prometheus. Needs a restart."""
    debug: bool = False
    """Log what the exporters do. Needs a restart."""
    resource_attributes: Mapping[str, str] = field(default_factory=dict)
    """`name=value`: what every trace and metric says of where it comes from. Needs a restart."""
    otlp_protocol: str = "http/protobuf"
    """How a collector is spoken to: `http/protobuf` or `grpc`. Needs a restart."""
    variables: Mapping[str, Secret] = field(default_factory=dict)
    """Every variable of the OpenTelemetry standard that is set (OTEL_…), by its standard name. Needs a restart."""

    @property
    def traces(self) -> bool:
        """Whether traces are exported."""
        return self.tracing_enabled and self.tracing_exporter == "opentelemetry"

    @property
    def metrics(self) -> str:
        """How figures are exported: `prometheus`, `opentelemetry`, or not at all when empty."""
        known = self.metrics_exporter in ("prometheus", "opentelemetry")
        return self.metrics_exporter if self.metrics_enabled and known else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    enabled: bool = False
    """Sign-in through this provider."""
    client_ids: tuple[str, ...] = ()
    """Client id; further ones, behind commas, are audiences of ID tokens."""
    secret: Secret = field(default_factory=lambda: Secret(""))
    """Client secret."""
    redirect_uri: str = ""
    """The callback that is registered with the provider."""
    url: str = ""
    """Without a trailing slash; empty = the provider's own address."""
    email_optional: bool = False
    """Somebody without an address may sign in."""
    skip_nonce_check: bool = False
    """Take ID tokens whose nonce nobody can check."""


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
    """How long discovery documents and keys of providers are kept."""
    linking_domains: Mapping[str, str] = field(default_factory=dict)
    """`provider=domain`: within a domain identities find one another's accounts; others are in `default`."""
    flow_binding_enabled: bool = False
    """A callback is taken from the browser alone in which its flow began, known by a cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProviders:
    """Providers that administrators define while the service runs."""

    enabled: bool = True
    """Administrators may define providers while the service runs."""
    most: int = 0
    """How many there may be; 0 = any number."""
    external_url: str = ""
    """Address of this service in their callback; empty = that of the API."""
    private_networks_enabled: bool = False
    """Whether they may be inside the operator's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Smtp:
    admin_email: str = ""
    """Sender of mail."""
    host: str = ""
    """Mail server; empty = nothing is sent."""
    port: int = 0
    """Its port; 465 is TLS from the start."""
    user: str = ""
    """User name there."""
    password: Secret = field(default_factory=lambda: Secret(""))
    """Password there."""
    sender_name: str = ""
    """Name of the sender; its address unless given."""
    max_frequency: timedelta | None = None
    """Least time between two mails to an address; unset = 900 s for confirmations and 60 s for everything else."""
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Further headers of mails, as JSON: name → list of values."""
    logging_enabled: bool = False
    """Log each mail with its kind, sender and recipient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailer:
    autoconfirm: bool = False
    """Addresses count as confirmed by themselves."""
    allow_unverified_email_sign_ins: bool = False
    """Whoever comes from a provider with an unverified address is signed in; the address stays unconfirmed."""
    secure_email_change_enabled: bool = True
    """A change of address is confirmed by both addresses."""
    otp_exp: timedelta = timedelta(seconds=86400)
    """Life of links and codes, in seconds."""
    otp_length: int = 6
    """Digits of a code, 6 to 10."""
    url_paths: Mapping[str, str] = field(default_factory=dict)
    """`invite`, `confirmation`, `recovery`, `email_change` → path; a missing one is `/verify`."""
    subjects: Mapping[str, str] = field(default_factory=dict)
    """Mail kind in lower case (`magic_link`, `password_changed_notification` …) → subject; only those set."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Mail kind in lower case → template URL; only those set."""
    notifications: frozenset[str] = frozenset()
    """Notices switched on: `password_changed`, `email_changed`, `phone_changed`, `identity_linked` …"""
    external_hosts: tuple[str, ...] = ()
    """Hosts that links may lead to in place of that of the external address."""
    backend: str = ""
    """Dotted name of a Django e-mail back end (anymail's, say) to use instead of SMTP."""
    backend_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Its options, as JSON."""
    dev_inbox_enabled: bool = False
    """Show mails and text messages at `/inbox` instead of sending them; for development alone."""
    dev_inbox_folder: str = ""
    """Where the development inbox keeps what it is sent; empty = `.data/inbox` of the checkout. Needs a restart."""
    worker_enabled: bool = True
    """Run the message worker inside every serving process. Needs a restart."""
    template_max_size: int = 1_000_000
    """Bytes used of a fetched template."""
    template_max_age: timedelta = timedelta(minutes=10)
    """How long a fetched template is used before it is fetched again."""
    template_retry_interval: timedelta = timedelta(seconds=10)
    """Pause after a failed attempt to fetch one."""
    template_reloading_enabled: bool = False
    """Fetch templates ahead of their use."""
    template_reloading_max_idle: timedelta = timedelta(minutes=20)
    """Without mail for so long, they are not fetched ahead."""
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
    """Headers to ask it with, as JSON: name → list of values."""
    blocked_exchangers: frozenset[str] = frozenset()
    """Hosts and addresses in lower case, without a dot at the end, that no mail goes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twilio:
    """The account of Twilio's messages or of its verification service."""

    account_sid: str = field(default="", repr=False)
    """Account SID."""
    auth_token: Secret = field(default_factory=lambda: Secret(""))
    """Auth token."""
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
    """Access key."""
    originator: str = ""
    """Sender."""

    @property
    def missing(self) -> str:
        return _first_missing(("Messagebird access key", self.access_key), ("Messagebird originator", self.originator))


@dataclass(frozen=True, slots=True, kw_only=True)
class Textlocal:
    api_key: Secret = field(default_factory=lambda: Secret(""))
    """API key."""
    sender: str = ""
    """Sender."""

    @property
    def missing(self) -> str:
        return _first_missing(("Textlocal API key", self.api_key), ("Textlocal sender", self.sender))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vonage:
    api_key: Secret = field(default_factory=lambda: Secret(""))
    """API key."""
    api_secret: Secret = field(default_factory=lambda: Secret(""))
    """API secret."""
    sender: str = ""
    """Sender."""

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
    """Numbers count as confirmed by themselves."""
    max_frequency: timedelta = timedelta(seconds=60)
    """Least time between two messages to a number."""
    otp_exp: timedelta = timedelta(seconds=60)
    """Life of a code, in seconds."""
    otp_length: int = 6
    """Digits of a code, 6 to 10."""
    provider: str = ""
    """`twilio`, `twilio_verify`, `messagebird`, `textlocal` or `vonage`."""
    template: str = "Your code is {{ .Code }}"
    """Text of a code message; `Code` is its only variable."""
    test_codes: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`number:code`: the code that a number always has; nothing is sent to it. Numbers are kept as digits."""
    test_codes_end_at: datetime | None = None
    """When these codes end; unset = never."""
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
    """Enrolment of authenticator apps."""
    totp_verify_enabled: bool = True
    """Their verification."""
    phone_enroll_enabled: bool = False
    """Enrolment of phones."""
    phone_verify_enabled: bool = False
    """Their verification."""
    web_authn_enroll_enabled: bool = False
    """Enrolment of security keys."""
    web_authn_verify_enabled: bool = False
    """Their verification."""
    challenge_expiry: timedelta = timedelta(seconds=300)
    """Life of a challenge; never below 300 s."""
    factor_expiry: timedelta = timedelta(seconds=300)
    """Life of an enrolment that was never challenged; never below 300 s."""
    max_enrolled: int = 10
    """Most factors of a user, verified or not."""
    max_verified: int = 10
    """Most verified factors of a user."""
    phone_otp_length: int = 6
    """Digits of a texted code, 6 to 10."""
    phone_template: str = "Your code is {{ .Code }}"
    """Text of its message; `Code` is its only variable."""
    phone_max_frequency: timedelta = timedelta(seconds=60)
    """Least time between two messages for a factor."""
    recovery_codes_enabled: bool = False
    """Users may make recovery codes for lost factors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkeys:
    enabled: bool = False
    """Whether there are passkeys."""
    max_per_user: int = 10
    """Most passkeys of a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAuthn:
    """The relying party of passkeys and of WebAuthn factors."""

    rp_id: str = ""
    """The domain that credentials are bound to."""
    rp_display_name: str = ""
    """What browsers call the site."""
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
    """Sign-up, password sign-in and requests for messages need a solved captcha."""
    provider: str = "hcaptcha"
    """`hcaptcha` or `turnstile`."""
    secret: Secret = field(default_factory=lambda: Secret(""))
    """Secret of the captcha service."""
    timeout: timedelta = timedelta(seconds=10)
    """How long its verdict is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    secret: Secret
    """Signs tokens where there are no keys, and seals what is stored for a while: 32 characters nobody can guess."""
    exp: timedelta = timedelta(seconds=3600)
    """Life of an access token, in seconds."""
    aud: str = ""
    """Audience of tokens and users, where a request names none."""
    issuer: str = ""
    """Issuer in tokens and in the discovery document; empty = tokens name none."""
    admin_roles: tuple[str, ...] = ("service_role", "svc_admin")
    """Roles that may administer."""
    admin_group_name: str = "admin"
    """Role whose users may change their own `app_metadata`."""
    default_group_name: str = ""
    """Role of new users."""
    keys: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """Array of JSON Web Keys (RFC 7517) that sign and verify tokens."""
    key_id: str = ""
    """Name of the secret as a key, in the head of tokens."""
    valid_methods: tuple[str, ...] = ()
    """Algorithms of tokens that are taken; those of the keys unless given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A message limit: `events` per hour in a fixed window, or a bucket of `events` refilled by one each `over`."""

    events: int
    over: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    header: str = ""
    """Header by whose value clients are told apart for request limits; empty = by address."""
    email_sent: Rate = field(default_factory=lambda: Rate(events=30))
    """Mails to everybody together: `N` an hour, or `N/D`, one more each D."""
    sms_sent: Rate = field(default_factory=lambda: Rate(events=30))
    """Text messages to everybody together, likewise."""
    verify: float = 30
    """Redeemed links and codes of a client in five minutes."""
    token_refresh: float = 150
    """Requests of a client for tokens in five minutes."""
    otp: float = 30
    """Requests of a client for messages, sign-ups and changes in five minutes, for each kind of them."""
    anonymous_users: float = 30
    """Anonymous sign-ins of a client in an hour."""
    factors: float = 15
    """Challenges of factors of a client in a minute, and as many verifications."""
    passkey: float = 30
    """Sign-ins by passkey of a client in five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The operator console at /operator/."""

    enabled: bool = True
    """The operator console at `/operator/`."""
    allowed_networks: tuple[Network, ...] = ()
    """Client addresses that may reach it; empty = any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWorker:
    """Indexes that make the search for users by part of an address or name quick."""

    ensure_user_search: bool = False
    """Build the indexes that make the search for users quick; needs `pg_trgm`."""
    max_users: int = 0
    """Build them as long as there are no more users than this, also when not asked to ensure them; 0 = never."""

    @property
    def is_on(self) -> bool:
        return self.ensure_user_search or self.max_users > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloading:
    """When the configuration directory is read again; counts only with `--config-dir`. Needs a restart throughout."""

    notify_enabled: bool = True
    """Watch the directory by notices of the file system. Needs a restart."""
    poller_enabled: bool = False
    """Look at it regularly where there are no such notices. Needs a restart."""
    poller_interval: timedelta = timedelta(seconds=10)
    """Time between two such looks. Needs a restart."""
    signal_enabled: bool = False
    """Read it again at a signal. Needs a restart."""
    signal_number: int = 10
    """That signal; 10 is SIGUSR1. Needs a restart."""
    grace_period: timedelta = timedelta(seconds=5)
    """How long the directory must have been quiet before it is read. Needs a restart."""


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
    reloading: Reloading = field(default_factory=Reloading)
    experimental: Experimental = field(default_factory=Experimental)
    notices: tuple[Notice, ...] = ()
    """What the log should say about these settings at start and after a reload."""

"""The settings of the service as frozen, typed values, each with its default and unit.

One section per concern. Nothing here reads the environment (`env.py`) or judges combinations (`rules.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from authsvc.core.deprecations import Notice

Network = IPv4Network | IPv6Network

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    min_length: int = 6
    """Bytes of UTF-8; never below 6."""
    required_characters: tuple[str, ...] = ()
    update_requires_reauthentication: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    autoconfirm: bool = False
    max_frequency: timedelta = timedelta(seconds=60)
    otp_exp: timedelta = timedelta(seconds=60)
    otp_length: int = 6
    provider: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Everything an operator can set, read once at start and swapped as a whole on reload."""

    site: Site
    api: Api
    database: Database
    jwt: Jwt
    signup: Signup = field(default_factory=Signup)
    passwords: Passwords = field(default_factory=Passwords)
    refresh: Refresh = field(default_factory=Refresh)
    sessions: Sessions = field(default_factory=Sessions)
    codes: OneTimeCodes = field(default_factory=OneTimeCodes)
    flows: Flows = field(default_factory=Flows)
    logging: Logging = field(default_factory=Logging)
    audit: Audit = field(default_factory=Audit)
    telemetry: Telemetry = field(default_factory=Telemetry)
    providers: Mapping[str, Provider] = field(default_factory=dict)
    smtp: Smtp = field(default_factory=Smtp)
    mailer: Mailer = field(default_factory=Mailer)
    sms: Sms = field(default_factory=Sms)
    captcha: Captcha = field(default_factory=Captcha)
    limits: Limits = field(default_factory=Limits)
    notices: tuple[Notice, ...] = ()
    """What the log should say about these settings at start and after a reload."""

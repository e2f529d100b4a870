"""Settings of the service itself: its addresses, its processes, the console, reloading."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting
from authsvc.conf.types import Network
from authsvc.conf.value_types import (
    ASSIGNMENTS,
    BOOLEAN,
    COUNT,
    DURATION,
    HTTP_URL,
    INTEGER,
    LIST,
    NETWORKS,
    PORT,
    TEXT,
    URL_PATTERNS,
    parse_networks,
)

# The other signals end a process, are sent by the system itself, or open the log file again.
_FREE_SIGNALS = frozenset(
    {signal.SIGUSR1, signal.SIGWINCH, *range(getattr(signal, "SIGRTMIN", 1), getattr(signal, "SIGRTMAX", 0) + 1)}
)
_ACCESS = ("viewer", "support", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    url: str = setting(
        "AUTH_SITE_URL",
        type=HTTP_URL,
        required=True,
        help="URL of the site that users come from: base of links in messages and default target of redirects.",
        example="http://localhost:3000",
    )
    allow_list: tuple[str, ...] = setting(
        "AUTH_URI_ALLOW_LIST",
        type=URL_PATTERNS,
        default=(),
        help="Patterns of further URLs that users may be redirected to.",
        example="https://*.app.example.com/**,myapp://login",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    external_url: str = setting(
        "AUTH_API_EXTERNAL_URL",
        "API_EXTERNAL_URL",
        type=HTTP_URL,
        required=True,
        help="URL under which clients reach this service.",
        example="http://localhost:8081",
    )
    host: str = setting(
        "AUTH_API_HOST",
        type=TEXT,
        default="",
        restart=True,
        help="Address or host name to listen on, IPv4 or IPv6; empty = every IPv4 interface.",
        example="127.0.0.1",
    )
    port: int = setting(
        "AUTH_API_PORT",
        "AUTH_PORT",
        "PORT",
        type=PORT,
        default=8081,
        restart=True,
        help="Port to listen on.",
    )
    request_id_header: str = setting(
        "AUTH_REQUEST_ID_HEADER",
        "AUTH_API_REQUEST_ID_HEADER",
        "REQUEST_ID_HEADER",
        type=TEXT,
        default="",
        help="Request header with the request id that a proxy assigns; empty = the service generates ids.",
        example="X-Request-ID",
    )
    max_request_duration: timedelta = setting(
        "AUTH_API_MAX_REQUEST_DURATION",
        type=DURATION,
        default=timedelta(seconds=10),
        help="A request that takes longer, or waits for a slot for half this time, gets status 504; 0 = no limit.",
    )
    request_body_timeout: timedelta = setting(
        "AUTH_API_REQUEST_BODY_TIMEOUT",
        type=DURATION,
        default=timedelta(seconds=15),
        falsy_is_default=True,
        minimum=timedelta(),
        help="Time for the body of a request to arrive, with at least 1 KiB/s; 0 = the default.",
    )
    internal_http_timeout: timedelta = setting(
        "AUTH_INTERNAL_HTTP_TIMEOUT",
        type=DURATION,
        default=timedelta(seconds=10),
        falsy_is_default=True,
        minimum=timedelta(),
        help="Timeout of a whole call to an SMS gateway, a sign-in provider or a client (logout tokens, keys); 0 = the"
        " default.",
    )
    cors_allowed_headers: tuple[str, ...] = setting(
        "AUTH_CORS_ALLOWED_HEADERS",
        type=LIST,
        default=(),
        help="Further request headers that browsers of other origins may send.",
        example="x-tenant,x-app-version",
    )
    forwarded_for_enabled: bool = setting(
        "AUTH_SECURITY_FORWARDED_FOR_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Take the client address from `Svc-Forwarded-For`, which a program of the operator sends.",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "AUTH_TRUSTED_PROXIES",
        type=NETWORKS,
        default=parse_networks("127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7"),
        help="Networks of proxies whose `X-Forwarded-For` is trusted.",
    )
    processes: int = setting(
        "WEB_CONCURRENCY",
        type=COUNT,
        default=0,
        restart=True,
        help="Number of serving processes; 0 = one per core.",
    )
    docs_enabled: bool = setting(
        "AUTH_API_DOCS_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Show the API as a page at `/docs`, and hints in errors. The development inbox turns both on too.",
    )


def _check_access(roles: Mapping[str, str]) -> str:
    unknown = sorted({access for access in roles.values() if access not in _ACCESS})
    return f"unknown access {unknown[0]!r}; use {', '.join(_ACCESS)}" if unknown else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The operator console at `/operator/`."""

    enabled: bool = setting(
        "AUTH_OPERATOR_CONSOLE_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Serve the operator console at `/operator/`.",
    )
    allowed_networks: tuple[Network, ...] = setting(
        "AUTH_OPERATOR_ALLOWED_NETWORKS",
        type=NETWORKS,
        default=(),
        help="Client addresses that may reach the console; empty = any.",
        example="10.0.0.0/8",
    )
    roles: Mapping[str, str] = setting(
        "AUTH_OPERATOR_ROLES",
        type=ASSIGNMENTS,
        default={},
        check=_check_access,
        help="Further roles that may use the console, as `role=access` with the access `viewer`, `support` or `admin`."
        " The roles of `AUTH_JWT_ADMIN_ROLES` have the access `admin`; the default role of users never has any.",
        example="helpdesk=support,auditor=viewer",
    )
    impersonation_enabled: bool = setting(
        "AUTH_OPERATOR_IMPERSONATION_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Let operators with the access `admin` view the application as a user, for at most 15 minutes.",
    )
    second_factor_required: bool = setting(
        "AUTH_OPERATOR_SECOND_FACTOR_REQUIRED",
        type=BOOLEAN,
        default=False,
        help="Operators without a second factor must enrol one before they can use the console.",
    )


def _check_interval(length: timedelta) -> str:
    return "" if length > timedelta() else "must be positive, such as 10s"


def _check_signal(number: int) -> str:
    return (
        ""
        if number in _FREE_SIGNALS
        else "not a signal that is free to use; use 10 (SIGUSR1), 28 (SIGWINCH) or a real-time signal"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloading:
    """Reload of the configuration directory; these settings have an effect only with `--config-dir`."""

    notify_enabled: bool = setting(
        "AUTH_RELOADING_NOTIFY_ENABLED",
        type=BOOLEAN,
        default=True,
        restart=True,
        help="Watch the configuration directory through notifications of the file system.",
    )
    poller_enabled: bool = setting(
        "AUTH_RELOADING_POLLER_ENABLED",
        "AUTH_RELOADING_POLLERENABLED",
        type=BOOLEAN,
        default=False,
        restart=True,
        help="Poll the directory where the file system sends no notifications, as on network file systems.",
    )
    poller_interval: timedelta = setting(
        "AUTH_RELOADING_POLLER_INTERVAL",
        type=DURATION,
        default=timedelta(seconds=10),
        restart=True,
        check=_check_interval,
        help="Time between two polls.",
    )
    signal_enabled: bool = setting(
        "AUTH_RELOADING_SIGNAL_ENABLED",
        type=BOOLEAN,
        default=False,
        restart=True,
        help="Reload at a signal.",
    )
    signal_number: int = setting(
        "AUTH_RELOADING_SIGNAL_NUMBER",
        type=INTEGER,
        default=10,
        restart=True,
        check=_check_signal,
        help="Number of that signal; 10 is SIGUSR1.",
    )
    grace_period: timedelta = setting(
        "AUTH_RELOADING_GRACE_PERIOD_INTERVAL",
        type=DURATION,
        default=timedelta(seconds=5),
        restart=True,
        minimum=timedelta(),
        help="Time without further changes of the directory before it is read.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experimental:
    """Behaviour of other servers that few installations need."""

    cursor_pagination_enabled: bool = setting(
        "AUTH_EXPERIMENTAL_CURSOR_PAGINATION_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Page the list of users by cursor, without totals, where a request names no page.",
    )
    email_identity_on_password_enabled: bool = setting(
        "AUTH_EXPERIMENTAL_CREATE_EMAIL_IDENTITY_ON_PASSWORD_SET_ENABLED",
        type=BOOLEAN,
        default=False,
        help="A first password that an administrator sets also creates an email identity.",
    )

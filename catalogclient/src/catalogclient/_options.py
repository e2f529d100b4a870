"""Options of RestCatalog: types, defaults and validation."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict, cast

from catalogclient import _headers, _urls
from catalogclient._guards import convert_errors
from catalogclient.errors import InvalidArgumentError

if TYPE_CHECKING:
    import requests

    from catalogclient._event_hooks import RequestHook
    from catalogclient._identifiers import TableLike
    from catalogclient._messages import Unset
    from catalogclient.auth._base import AuthManager
    from catalogclient.auth._config import AuthConfig

ConfigMode: TypeAlias = Literal["auto", "always", "never"]
ConfigFallback: TypeAlias = Literal["lacking", "any", "never"]
ConfigUri: TypeAlias = Literal["same-origin", "always", "never"]
Snapshots: TypeAlias = Literal["all", "refs"]
AccessDelegation: TypeAlias = Literal["vended-credentials", "remote-signing"]


_MAX_POOL = 10_000
_LONGEST_TIMEOUT = 1e8
"""Seconds. Longer timeouts, infinity included, mean no limit. The operating system does not accept longer ones."""


def _positive(number: object, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        raise InvalidArgumentError(f"{name} must be a number above 0")


def positive_int(number: object, name: str) -> None:
    """Raise InvalidArgumentError unless `number` is an integer above 0."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidArgumentError(f"{name} must be an integer above 0")


def time_limit(seconds: object, name: str) -> float | None:
    """Return seconds as a float, or None for no limit. Raises InvalidArgumentError unless `seconds` is positive."""
    if seconds is None:
        return None
    _positive(seconds, name)
    return None if seconds > _LONGEST_TIMEOUT else float(seconds)  # type: ignore[operator, arg-type]  # checked above


@dataclass(frozen=True, slots=True)
class Timeout:
    """Timeouts in seconds: for the connection, and for the wait for the next bytes of a response. None: no limit."""

    connect: float | None = 10.0
    read: float | None = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "connect", time_limit(self.connect, "a timeout"))
        object.__setattr__(self, "read", time_limit(self.read, "a timeout"))

    @classmethod
    def parse(cls, value: TimeoutLike) -> Timeout:
        """Convert one number for both timeouts, a pair, a Timeout, or None for no limit."""
        if isinstance(value, Timeout):
            return value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise InvalidArgumentError("a timeout must be a number or a pair of numbers")
            return cls(*value)
        return cls(value, value)

    def at_most(self, other: Timeout) -> Timeout:
        """Return the shorter of both timeouts."""
        return Timeout(_shorter(self.connect, other.connect), _shorter(self.read, other.read))


def _shorter(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


DEFAULT_TIMEOUT = Timeout()
TimeoutLike: TypeAlias = float | tuple[float, float] | Timeout | None


class CallOptions(TypedDict, total=False):
    """Options of every call."""

    timeout: TimeoutLike
    """Replaces `timeout` of the options, for all requests of the call."""
    headers: Mapping[str, str]
    """Header fields in addition to those of the options."""


class MutationOptions(CallOptions, total=False):
    """Options of every call that changes the catalog."""

    idempotency_key: str | None
    """UUID of the change. Set it to resend an earlier change. The default is a new key."""


class LoadOptions(CallOptions, total=False):
    """Options of loading a table."""

    snapshots: Snapshots | None
    """`refs` omits snapshots without a branch or tag."""
    referenced_by: Sequence[TableLike] | None
    """Views through which the table is read, outermost first."""
    access_delegation: Sequence[str] | Unset | None
    """Replaces `access_delegation` of the options."""


CALL_OPTIONS = frozenset(("timeout", "headers", "idempotency_key"))


def without_key(call: MutationOptions) -> CallOptions:
    """Return the options for a read that is part of a change."""
    return cast(CallOptions, {name: value for name, value in call.items() if name != "idempotency_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Number of attempts and delays between them. The operation and the failure decide if a request may be repeated."""

    max_attempts: int = 4
    """Maximum number of attempts, including the first."""
    backoff_base: float = 0.5
    """Delay before the second attempt, in seconds."""
    backoff_factor: float = 2.0
    """Factor between consecutive delays."""
    backoff_max: float = 20.0
    """Maximum delay, in seconds."""
    jitter: bool = True
    """Multiply each delay by a random factor between 0.5 and 1."""
    respect_retry_after: bool = True
    """Use the Retry-After header as the delay."""
    max_retry_after: float = 60.0
    """Seconds. The call fails at once if the server requests a longer delay."""
    retry_commits: bool = False
    """Repeat a commit after a lost response even if the server does not advertise idempotency keys."""

    def __post_init__(self) -> None:
        positive_int(self.max_attempts, "max_attempts")
        for name in ("backoff_base", "backoff_factor", "backoff_max", "max_retry_after"):
            _positive(getattr(self, name), name)

    def delay(self, attempt: int) -> float:
        """Return the delay after a failed attempt, in seconds. The first attempt is 1."""
        delay = self.backoff_base
        for _ in range(min(attempt - 1, 64)):
            delay *= self.backoff_factor
        delay = min(self.backoff_max, delay)
        return delay * random.uniform(0.5, 1.0) if self.jitter else delay  # noqa: S311  (no secret)


def _check_text(value: object, name: str) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name} contains a lone surrogate") from None


def check_file(path: str, name: str) -> None:
    """Raise InvalidArgumentError unless `path` exists."""
    if not Path(path).exists():
        raise InvalidArgumentError(f"{name} is {path!r}, which does not exist")


class OptionFields(TypedDict, total=False):
    """Fields of RestCatalogOptions except `base_url`, as keywords of RestCatalog."""

    warehouse: str | None
    catalog_name: str | None
    auth: AuthConfig | AuthManager | None
    access_delegation: Sequence[str] | None
    prefix: str | None
    config_mode: ConfigMode
    config_fallback: ConfigFallback
    config_uri: ConfigUri
    endpoint_check: Literal["off", "strict"]
    timeout: TimeoutLike
    total_timeout: float | None
    retry: RetryPolicy | None
    headers: Mapping[str, str]
    user_agent: str | None
    proxies: Mapping[str, str] | None
    verify: bool | str
    cert: str | tuple[str, str] | None
    trust_env: bool
    pool_maxsize: int
    max_response_bytes: int | None
    namespace_separator: str | None
    hooks: Sequence[RequestHook]
    session: requests.Session | None
    properties: Mapping[str, str] | None


_CHOICES = {
    "config_mode": ("auto", "always", "never"),
    "config_fallback": ("lacking", "any", "never"),
    "config_uri": ("same-origin", "always", "never"),
    "endpoint_check": ("off", "strict"),
}
_OTHER_SPELLINGS = {"baseUrl": "base_url", "catalogName": "catalog_name", "accessDelegation": "access_delegation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCatalogOptions:
    """Options of RestCatalog. Raises InvalidArgumentError for invalid values."""

    base_url: str
    """Root URL of the catalog, `http` or `https`. Requests go to `<base_url>/v1/...`."""
    warehouse: str | None = None
    """Warehouse, sent in the configuration request. The response contains the prefix of all paths."""
    catalog_name: str | None = None
    """Old name of `warehouse`. Ignored if `warehouse` is set."""
    auth: AuthConfig | AuthManager | None = field(default=None, repr=False)
    """A mapping such as `{"type": "bearer", "token": "..."}`, or an AuthManager. None sends no credentials."""
    access_delegation: Sequence[str] | None = None
    """Values of X-Iceberg-Access-Delegation: `vended-credentials`, `remote-signing`. None sends no header."""
    prefix: str | None = None
    """Prefix of all paths. None uses the server's prefix. An empty string means no prefix."""
    config_mode: ConfigMode = "auto"
    """When to request the configuration, which has the prefix and the separator: `never`, `always`, or `auto`, which
    also works without a configuration if no warehouse is set and the server rejects the request with status 400."""
    config_fallback: ConfigFallback = "lacking"
    """When to continue without a configuration, with the warehouse as the prefix: if the configuration endpoint is
    `lacking` (status 404, 405, 410, 501), after `any` failure, or `never`."""
    config_uri: ConfigUri = "same-origin"
    """The kind of `uri` in the server's configuration that may replace `base_url`."""
    endpoint_check: Literal["off", "strict"] = "off"
    """`strict` raises UnsupportedEndpointError for an endpoint that is not in the server's list."""
    timeout: TimeoutLike = DEFAULT_TIMEOUT
    """Seconds for the connection and for the wait for the next bytes of a response: one number, or a pair."""
    total_timeout: float | None = 600.0
    """Seconds for a whole call with all attempts and delays. None leaves `timeout` only, which a server that sends one
    byte at a time never exceeds."""
    retry: RetryPolicy | None = RetryPolicy()
    """None: one attempt."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Header fields sent with every request to the catalog."""
    user_agent: str | None = None
    """Prepended to the default User-Agent."""
    proxies: Mapping[str, str] | None = field(default=None, repr=False)
    """Proxies in the form of requests: `{"https": "http://proxy:3128"}`."""
    verify: bool | str = True
    """Verify TLS certificates, or the path of a CA bundle."""
    cert: str | tuple[str, str] | None = None
    """Path of a client certificate, or the paths of certificate and key."""
    trust_env: bool = True
    """Read proxies and the CA bundle from environment variables. `.netrc` is never read."""
    pool_maxsize: int = 32
    """Connections kept open per host."""
    max_response_bytes: int | None = 536_870_912
    """Maximum size of a response body after decompression."""
    namespace_separator: str | None = None
    """Separator of namespace levels. None uses the server's separator."""
    hooks: Sequence[RequestHook] = ()
    """Called for every attempt, response and delay."""
    session: requests.Session | None = field(default=None, repr=False)
    """Session of the caller. Its adapters are used; its auth, hooks and cookies are ignored; it is not closed. Its
    connections check `total_timeout` between attempts only."""
    properties: Mapping[str, str] | None = field(default=None, repr=False)
    """Client properties, merged between the server's defaults and overrides."""

    @convert_errors("invalid option")
    def __post_init__(self) -> None:
        _urls.root(self.base_url)
        for name in ("warehouse", "catalog_name", "prefix", "namespace_separator", "user_agent"):
            _check_text(getattr(self, name), name)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}")
        Timeout.parse(self.timeout)
        time_limit(self.total_timeout, "total_timeout")
        if self.max_response_bytes is not None:
            positive_int(self.max_response_bytes, "max_response_bytes")
        positive_int(self.pool_maxsize, "pool_maxsize")
        if self.pool_maxsize > _MAX_POOL:
            raise InvalidArgumentError(f"pool_maxsize must be at most {_MAX_POOL}")
        if not isinstance(self.retry, RetryPolicy | None):
            raise InvalidArgumentError("retry must be a RetryPolicy or None")
        for name in ("headers", "proxies", "properties"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise InvalidArgumentError(f"{name} must be a mapping")
        if not isinstance(self.verify, bool):
            check_file(self.verify, "verify")
        for path in (self.cert,) if isinstance(self.cert, str | None) else self.cert:
            if path is not None:
                check_file(path, "cert")
        tuple(self.hooks)
        _headers.check(self.headers)
        _headers.check_value(self.user_agent or "")
        if isinstance(self.access_delegation, str) or not all(
            isinstance(value, str) for value in self.access_delegation or ()
        ):
            raise InvalidArgumentError("access_delegation must be a sequence of strings")
        if self.namespace_separator == "":
            raise InvalidArgumentError("namespace_separator must not be empty")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Create options from a mapping. `baseUrl`, `catalogName` and `accessDelegation` are accepted as keys too."""
        names = {option.name for option in fields(cls)}
        values = {_OTHER_SPELLINGS.get(name, name): value for name, value in mapping.items()}
        unknown = sorted(set(values) - names)
        if unknown:
            raise InvalidArgumentError(f"unknown options: {', '.join(unknown)}")
        if "base_url" not in values:
            raise InvalidArgumentError("base_url is missing")
        return cls(**values)

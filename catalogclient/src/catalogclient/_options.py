"""How a catalog is reached and treated: the options, their defaults and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict

from catalogclient import _headers, _urls
from catalogclient.errors import InvalidArgumentError

if TYPE_CHECKING:
    import requests

    from catalogclient._hooks import RequestHook
    from catalogclient.auth._base import AuthManager
    from catalogclient.auth._config import AuthConfig

ConfigMode: TypeAlias = Literal["auto", "always", "never"]
ConfigFallback: TypeAlias = Literal["lacking", "any", "never"]
ConfigUri: TypeAlias = Literal["same-origin", "always", "never"]
Snapshots: TypeAlias = Literal["all", "refs"]
AccessDelegation: TypeAlias = Literal["vended-credentials", "remote-signing"]


def _positive(number: object, name: str) -> None:
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
        raise InvalidArgumentError(f"{name} must be a number above 0")


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds for making a connection, and for the pause between two pieces of an answer; None is for ever."""

    connect: float | None = 10.0
    read: float | None = 60.0

    def __post_init__(self) -> None:
        for seconds in (self.connect, self.read):
            _positive(seconds, "a time-out")

    @classmethod
    def given(cls, value: TimeoutLike) -> Timeout:
        """`value` is one number for both, a pair, a Timeout, or None for no limit."""
        if isinstance(value, Timeout):
            return value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise InvalidArgumentError("a time-out is a number or a pair of numbers")
            return cls(*value)
        return cls(value, value)


DEFAULT_TIMEOUT = Timeout()
TimeoutLike: TypeAlias = float | tuple[float, float] | Timeout | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after which pauses a request is sent again; whether it may be is not a matter of policy."""

    max_attempts: int = 4
    """With the first."""
    backoff_base: float = 0.5
    """Seconds before the second attempt."""
    backoff_factor: float = 2.0
    """By which each pause is longer than the one before."""
    backoff_max: float = 20.0
    """Longest pause, in seconds."""
    jitter: bool = True
    """Pauses vary between half and the whole of their length."""
    respect_retry_after: bool = True
    """Wait as long as the server asks to."""
    max_retry_after: float = 60.0
    """Seconds; a server that asks for more is not waited for."""
    retry_commits: bool = False
    """Send a commit again after a lost answer although the server promises nothing about idempotency keys."""

    def __post_init__(self) -> None:
        _positive(self.max_attempts, "max_attempts")
        for name in ("backoff_base", "backoff_factor", "backoff_max", "max_retry_after"):
            _positive(getattr(self, name), name)


class OptionFields(TypedDict, total=False):
    """The options beside the address, as keywords of RestCatalog."""

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
    """Everything RestCatalog can be told. Raises InvalidArgumentError for values that cannot be used."""

    base_url: str
    """Root of the catalog, `http` or `https`; requests go to `<base_url>/v1/...`."""
    warehouse: str | None = None
    """Asked for in the configuration request, whose answer says the prefix of all paths."""
    catalog_name: str | None = None
    """Old name of `warehouse`, which wins."""
    auth: AuthConfig | AuthManager | None = field(default=None, repr=False)
    """A mapping such as `{"type": "bearer", "token": "..."}`, or a manager; None sends no credentials."""
    access_delegation: Sequence[str] | None = None
    """`vended-credentials`, `remote-signing`: how the server should open storage; nothing is asked by default."""
    prefix: str | None = None
    """None: the server says it. Empty: there is none."""
    config_mode: ConfigMode = "auto"
    """`auto` asks for the configuration when there is a warehouse; `always`, `never`."""
    config_fallback: ConfigFallback = "lacking"
    """When the warehouse becomes the prefix: `lacking` the configuration endpoint, after `any` failure, or `never`."""
    config_uri: ConfigUri = "same-origin"
    """Whether the server may send later requests elsewhere."""
    endpoint_check: Literal["off", "strict"] = "off"
    """`strict` sends nothing to an endpoint that the server's list of endpoints lacks."""
    timeout: TimeoutLike = DEFAULT_TIMEOUT
    """Seconds for making a connection and for each pause in an answer: one number, or a pair."""
    total_timeout: float | None = 600.0
    """Seconds for a whole call with all its attempts and pauses. None leaves `timeout`, which a server that sends a
    byte now and then never reaches."""
    retry: RetryPolicy | None = RetryPolicy()
    """None: one attempt."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request to the catalog."""
    user_agent: str | None = None
    """Stands before the library's own."""
    proxies: Mapping[str, str] | None = field(default=None, repr=False)
    """As for requests: `{"https": "http://proxy:3128"}`."""
    verify: bool | str = True
    """Check certificates; or the path of a bundle of authorities."""
    cert: str | tuple[str, str] | None = None
    """Path of a client certificate, or of it and its key."""
    trust_env: bool = True
    """Take proxies and authorities from the environment. `.netrc` is never read."""
    pool_maxsize: int = 32
    """Connections kept for later use."""
    max_response_bytes: int | None = 536_870_912
    """Longest body of an answer, after decompression."""
    namespace_separator: str | None = None
    """None: the server's."""
    hooks: Sequence[RequestHook] = ()
    """Told of every attempt, its answer, and every pause."""
    session: requests.Session | None = field(default=None, repr=False)
    """The caller's: its adapters are used, its authentication, hooks and cookies are not, and it is not closed. Its
    connections know `total_timeout` between attempts only."""
    properties: Mapping[str, str] | None = field(default=None, repr=False)
    """The client's own configuration, merged between the server's defaults and its overrides. Given at all, a server
    that answers without a prefix is taken at its word, as the OpenAPI document has it."""

    def __post_init__(self) -> None:
        _urls.root(self.base_url)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}")
        Timeout.given(self.timeout)
        _positive(self.total_timeout, "total_timeout")
        _positive(self.max_response_bytes, "max_response_bytes")
        _positive(self.pool_maxsize, "pool_maxsize")
        _headers.check(self.headers)
        _headers.check_value(self.user_agent or "")
        if isinstance(self.access_delegation, str):
            raise InvalidArgumentError("access_delegation is a sequence of texts")
        if self.namespace_separator == "":
            raise InvalidArgumentError("namespace_separator must not be empty")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Options from a mapping with their names; `baseUrl`, `catalogName` and `accessDelegation` are taken too."""
        known = {each.name for each in fields(cls)}
        given = {_OTHER_SPELLINGS.get(name, name): value for name, value in mapping.items()}
        unknown = sorted(set(given) - known)
        if unknown:
            raise InvalidArgumentError(f"unknown options: {', '.join(unknown)}")
        if "base_url" not in given:
            raise InvalidArgumentError("base_url is missing")
        return cls(**given)

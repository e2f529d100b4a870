"""The caller of a request: client IP address, user agent and the other parts of a request that services may use."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from authsvc import conf
from authsvc.conf import Network
from authsvc.errors import ValidationFailed

logger = logging.getLogger(__name__)

_MAX_AUDIENCE_LENGTH = 255
# Sessions store the user agent; browsers send about 150 characters.
_MAX_USER_AGENT_LENGTH = 512
# An IPv6 address whose last two groups are written as an IPv4 address.
_MAX_ADDRESS_LENGTH = 45
# Some proxies write the port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. Brackets may also enclose an address alone.
_WITH_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
_MAX_PORT_LENGTH = len("[]:65535")
_MAX_CLIENT_KEY_LENGTH = 255
# No request passes so many proxies. A client within a trusted network can send thousands of addresses.
_MAX_PROXIES = 100
# Stateless translators (RFC 6052 §2.1) write the client's IPv4 address into the last 32 bits of this network.
_TRANSLATED_IPV4 = IPv6Network("64:ff9b::/96")


@dataclass(slots=True, kw_only=True)
class AuditContext:
    """Values that the audit entries of one request share, as far as they are known when an entry is written."""

    session_id: UUID | None = None
    """The session that authenticated the request, or that the request has started."""
    next_session_id: UUID | None = None
    """The id of the session that the request is about to start."""
    account: Any = None
    """The account (an `audit.Actor`) that the request tries to sign in to; None if it is unknown."""
    impersonator: Any = None
    """The operator (an `audit.Administrator`) who impersonates the user of the request."""
    event_actor: Any = None
    """The `events.EventActor` that has authenticated; None before that."""
    payloads: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    """The payloads of the entries, for the access log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`address` is the client IP address, `""` if unknown; `audience` is the audience of the users to search."""

    address: str = ""
    client: str = ""
    """The key by which quotas recognise the client: `client_key`, else its network; `""` if unknown."""
    user_agent: str = ""
    request_id: str = ""
    audience: str = ""
    link_base: str = ""
    """The URL of this service as the client reached it, for links in emails."""
    authorization: str = field(default="", repr=False)
    """The unverified Authorization header, `""` without one."""
    receives_tokens: bool = True
    """False for a page of this service, whose session has a cookie instead of tokens."""
    audit: AuditContext = field(default_factory=AuditContext, repr=False, compare=False)


current_caller: ContextVar[Caller | None] = ContextVar("authsvc_caller", default=None)
"""The Caller of the current request; None outside of requests, and before `caller_of`."""


def caller_of(request: HttpRequest) -> Caller:
    """The Caller of a request, computed once per request.

    Raises ValidationFailed for an audience longer than 255 characters.
    """
    meta = request.META
    caller: Caller | None = meta.get("authsvc.caller")
    if caller is None:
        audience = meta.get("HTTP_X_JWT_AUD") or conf.current().jwt.aud
        if len(audience) > _MAX_AUDIENCE_LENGTH:
            raise ValidationFailed("The audience is too long")
        caller = meta["authsvc.caller"] = Caller(
            address=client_address(request),
            client=client_key(request) or network_key(client_address(request)),
            user_agent=meta.get("HTTP_USER_AGENT", "")[:_MAX_USER_AGENT_LENGTH],
            request_id=meta["authsvc.request_id"],
            audience=audience,
            link_base=_link_base(request),
            authorization=meta.get("HTTP_AUTHORIZATION", ""),
        )
    current_caller.set(caller)
    return caller


def page_caller_of(request: HttpRequest) -> Caller:
    """The Caller of a page of this service, for `caller_of` too. Raises the errors of `caller_of`."""
    caller = caller_of(request)
    if caller.receives_tokens:
        caller = request.META["authsvc.caller"] = replace(caller, receives_tokens=False)
        current_caller.set(caller)
    return caller


def client_address(request: HttpRequest) -> str:
    """The client IP address in canonical form; computed once per request."""
    meta = request.META
    address: str | None = meta.get("authsvc.address")
    if address is None:
        address = meta["authsvc.address"] = resolve_address(
            peer=meta.get("REMOTE_ADDR", ""),
            forwarded_for=meta.get("HTTP_X_FORWARDED_FOR"),
            svc_forwarded_for=meta.get("HTTP_SVC_FORWARDED_FOR"),
        )
    return address


def client_key(request: HttpRequest) -> str:
    """The key of the client in rate limits, `""` if the configured header is missing.

    A valid Svc-Forwarded-For address comes first, if that header is enabled; then the header of
    AUTH_RATE_LIMIT_HEADER. The client address is used only if no header is configured. Addresses count by network.
    """
    name = conf.current().limits.header
    if not name or _parse_svc_forwarded_for(request.META.get("HTTP_SVC_FORWARDED_FOR")) is not None:
        return network_key(client_address(request))
    text = (request.headers.get(name) or "").partition(",")[0].strip()
    return network_key(text) if len(text) <= _MAX_CLIENT_KEY_LENGTH else text


@lru_cache(maxsize=4096)
def network_key(address: str) -> str:
    """The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address; other text unchanged.

    A provider assigns at least a /64 to each subscriber (RFC 6177 §2), so a client chooses among 2^64 addresses. IPv6
    addresses that contain the client's IPv4 address count as that address.
    """
    parsed = _parse_address(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.sixtofour is not None:
        return str(parsed.sixtofour)
    if parsed in _TRANSLATED_IPV4:
        return str(IPv4Address(int(parsed) & 0xFFFF_FFFF))
    return str(IPv6Network((parsed, 64), strict=False))


def resolve_address(*, peer: str, forwarded_for: str | None, svc_forwarded_for: str | None) -> str:
    """The client IP address in canonical form, `""` for a peer on a local socket.

    `peer` is the address of the connection; a peer without an IP address (a local socket) is trusted. The other
    arguments are the headers X-Forwarded-For and Svc-Forwarded-For. X-Forwarded-For is used only behind trusted
    proxies and is read from the right: each proxy appends the address it saw, and clients can forge everything to the
    left of the first untrusted address.
    """
    forwarded = svc_forwarded_address(svc_forwarded_for)
    if forwarded is not None:
        return forwarded
    networks = conf.current().api.trusted_proxies
    address, trusted = _classify_address(peer.partition("%")[0], networks)
    if not forwarded_for or not (trusted or address is None):
        return address or ""
    for text in reversed(forwarded_for.rsplit(",", _MAX_PROXIES)[-_MAX_PROXIES:]):
        hop, trusted = _classify_address(text.strip(), networks)
        if hop is None:
            break
        address = hop
        if not trusted:
            break
    return address or ""


def svc_forwarded_address(header: str | None) -> str | None:
    """The address in Svc-Forwarded-For; None if the setting is off, or the header is missing or invalid."""
    if not header or not conf.current().api.forwarded_for_enabled:
        return None
    address = _parse_svc_forwarded_for(header)
    if address is None:
        logger.warning("error processing Svc-Forwarded-For")
        return None
    return str(address)


def _parse_svc_forwarded_for(header: str | None) -> IPv4Address | IPv6Address | None:
    if not header or not conf.current().api.forwarded_for_enabled:
        return None
    return _parse_address(header.partition(",")[0].strip())


def _link_base(request: HttpRequest) -> str:
    """The URL of the host that the client used, if AUTH_MAILER_EXTERNAL_HOSTS lists it, else the external URL."""
    hosts = conf.current().mailer.external_hosts
    if not hosts:
        return conf.current().api.external_url
    host = request.META.get("HTTP_X_FORWARDED_HOST") or request.META.get("HTTP_HOST", "").rsplit(":", 1)[0]
    if host not in hosts:
        return conf.current().api.external_url
    is_http = host == "localhost" and "http" in (request.META.get("HTTP_X_FORWARDED_PROTO"), request.scheme)
    return f"{'http' if is_http else 'https'}://{host}"


@lru_cache(maxsize=4096)
def _classify_address(text: str, networks: tuple[Network, ...]) -> tuple[str | None, bool]:
    """The canonical address (None: invalid), and whether it belongs to one of the networks."""
    address = _parse_address(text)
    if address is None:
        return None, False
    return str(address), any(address in network for network in networks)


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a header or of a peer, with or without a port; None if it is malformed."""
    if len(text) > _MAX_ADDRESS_LENGTH + _MAX_PORT_LENGTH or "%" in text:
        return None
    match = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address(match[1] or match[2] if match else text)
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 peers as IPv4-mapped addresses.
    return getattr(address, "ipv4_mapped", None) or address

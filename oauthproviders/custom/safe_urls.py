"""Validation of URLs that administrators configure for outgoing calls: https, and no internal address (SSRF)."""

from __future__ import annotations

import ipaddress

from authsvc.outgoing import bulkhead, connections, urls
from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse

_DNS_TIMEOUT_SECONDS = 5.0
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class UnsafeUrl(Exception):
    """The text is part of the response."""


class NotPublicUrl(UnsafeUrl):
    """The host has, or names, an address that is not public."""


class Unresolvable(UnsafeUrl):
    """The host has no address."""


def check(url: str, *, private_allowed: bool) -> None:
    """Raises UnsafeUrl. Each call checks the resolved address again, because DNS can change."""
    if not url.startswith("https://"):
        raise UnsafeUrl("URL must use HTTPS")
    parts = urls.split_plain(url)
    if parts is None:
        raise UnsafeUrl("URL must have a valid hostname")
    if private_allowed:
        return
    host = parts.hostname or ""
    name = host.rstrip(".")
    if name in _LOCAL_NAMES or name.endswith(".localhost") or _is_loopback(name):
        raise NotPublicUrl("URL cannot point to localhost or loopback addresses")
    try:
        seconds = min(_DNS_TIMEOUT_SECONDS, deadline.remaining().total_seconds())
        with bulkhead.wait_for("dns"):
            addresses = connections.look_up(host, parts.port or 443, seconds=seconds)
    except (OSError, UnicodeError, InvalidProviderResponse):
        raise Unresolvable("Unable to resolve hostname") from None
    for _family, address in addresses:
        if kind := _forbidden_kind(address[0]):
            raise NotPublicUrl(f"URL cannot resolve to {kind}")


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _forbidden_kind(address: str) -> str:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    ip = mapped or ip
    if ip.is_loopback:
        return "loopback addresses"
    if ip in connections.METADATA:
        return "cloud metadata endpoints"
    if ip.is_link_local:
        return "link-local addresses"
    if ip.is_multicast:
        return "multicast addresses"
    if ip.is_unspecified:
        return "unspecified addresses"
    return "" if connections.is_public(address) else "private network addresses"

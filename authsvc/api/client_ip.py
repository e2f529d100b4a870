"""Determines the client IP address from the peer address and the headers of trusted proxies."""

from __future__ import annotations

import logging
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from authsvc import conf
from authsvc.conf import Network

logger = logging.getLogger(__name__)

# An IPv6 address whose last two groups are written as an IPv4 address.
_MAX_LENGTH = 45


def resolve(*, peer: str, forwarded_for: str | None, svc_forwarded_for: str | None) -> str:
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
    address, trusted = _classify(peer.partition("%")[0], networks)
    if not forwarded_for or not (trusted or address is None):
        return address or ""
    for text in reversed(forwarded_for.split(",")):
        hop, trusted = _classify(text.strip(), networks)
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
    address = _parse(header.partition(",")[0].strip())
    if address is None:
        logger.warning("error processing Svc-Forwarded-For")
        return None
    return str(address)


@lru_cache(maxsize=4096)
def _classify(text: str, networks: tuple[Network, ...]) -> tuple[str | None, bool]:
    """The canonical address (None: invalid), and whether it belongs to one of the networks."""
    address = _parse(text)
    if address is None:
        return None, False
    return str(address), any(address in network for network in networks)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    if len(text) > _MAX_LENGTH or "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 peers as IPv4-mapped addresses.
    return getattr(address, "ipv4_mapped", None) or address

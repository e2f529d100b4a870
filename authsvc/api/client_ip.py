"""Which address a request comes from, as far as the peers in between can be believed."""

from __future__ import annotations

import logging
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from authsvc import conf
from authsvc.conf import Network

logger = logging.getLogger(__name__)

# The longest text of an address: eight groups whose last two are written as an IPv4 address.
_LONGEST = 45


def resolve(*, peer: str, forwarded_for: str | None, svc_forwarded_for: str | None) -> str:
    """The client's address in canonical form, `""` when only a local socket is known.

    `peer` is the other end of the connection; what is no address (a local socket) is trusted. The other two are the
    headers X-Forwarded-For and Svc-Forwarded-For. X-Forwarded-For counts only behind trusted proxies and is read from
    the right: each proxy adds the address it saw, and what lies left of the first untrusted one is anybody's writing.
    """
    announced = svc_forwarded_address(svc_forwarded_for)
    if announced is not None:
        return announced
    networks = conf.current().api.trusted_proxies
    address, trusted = _judge(peer.partition("%")[0], networks)
    if not forwarded_for or not (trusted or address is None):
        return address or ""
    for text in reversed(forwarded_for.split(",")):
        hop, trusted = _judge(text.strip(), networks)
        if hop is None:
            break
        address = hop
        if not trusted:
            break
    return address or ""


def svc_forwarded_address(header: str | None) -> str | None:
    """The address in Svc-Forwarded-For, or None where the setting is off or the header absent or no address."""
    if not header or not conf.current().api.forwarded_for_enabled:
        return None
    address = _read(header.partition(",")[0].strip())
    if address is None:
        logger.warning("error processing Svc-Forwarded-For")
        return None
    return str(address)


@lru_cache(maxsize=4096)
def _judge(text: str, networks: tuple[Network, ...]) -> tuple[str | None, bool]:
    """The canonical address (None: not an address) and whether it lies inside one of the networks."""
    address = _read(text)
    if address is None:
        return None, False
    return str(address), any(address in network for network in networks)


def _read(text: str) -> IPv4Address | IPv6Address | None:
    if len(text) > _LONGEST or "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket for both families shows IPv4 peers this way.
    return getattr(address, "ipv4_mapped", None) or address

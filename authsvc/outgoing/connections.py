"""Connections for outgoing HTTP with one deadline for the whole call.

The timeouts of the libraries apply to each read, so a peer that sends single bytes could occupy a thread indefinitely.
Here name resolution, every connection attempt, and every read and write share one deadline.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

# Firewalls drop idle connections; a call on a dropped one would wait until its deadline.
_IDLE_SECONDS = 30.0
_MAX_LOOKUPS = 32
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"))
)
"""Metadata addresses of the large clouds, which serve credentials to machines."""
# Networks that the library treats as public: local translation (RFC 8215), site-local (RFC 3879), IPv4-compatible
# (RFC 4291 §2.5.5.1), 6to4 relays (RFC 7526), documentation (RFC 9637), segment routing (RFC 9602).
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("64:ff9b:1::/48", "fec0::/10", "::/96", "192.88.99.0/24", "3fff::/20", "5f00::/16"),
    )
)


Address: TypeAlias = tuple[socket.AddressFamily, Any]
"""Family and socket address."""

_lookup_slots = threading.BoundedSemaphore(_MAX_LOOKUPS)


class SizeLimitExceeded(Exception):
    """The response exceeds the size limit of the call."""


class NoPermittedAddress(Exception):
    """The host has no permitted address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Limits of the current call, for the connections of its thread."""

    deadline: float
    """Monotonic clock."""
    max_bytes: int
    """Bytes that may be received, including headers and framing."""
    public_only: bool

    def seconds_left(self) -> float:
        """The remaining seconds, more than zero. Raises TimeoutError."""
        return _seconds_until(self.deadline)


class _ThreadLocal(threading.local):
    call: Call


_local = _ThreadLocal()


def begin(call: Call) -> None:
    """Apply the limits of `call` to the connections of this thread."""
    _local.call = call


class _Incoming(io.RawIOBase):
    """The bytes of one response."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw
        self._left = _local.call.max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_local.call.seconds_left())
        count = self._raw.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise SizeLimitExceeded
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    fp: io.BufferedReader

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Incoming(sock, self.fp.detach()))


class _Connection(HTTPConnection):
    response_class = _Response
    _used_at = 0.0

    def _new_conn(self) -> socket.socket:
        call = _local.call
        addresses = _addresses(self._dns_host, self.port, call)
        return connect(addresses, deadline=call.deadline, options=self.socket_options or ())

    def send(self, data: Any) -> None:
        self._used_at = time.monotonic()
        if self.sock is not None:
            # Bytes that the previous call left unread.
            self.sock.settimeout(_local.call.seconds_left())
        super().send(data)

    @property
    def is_connected(self) -> bool:
        return super().is_connected and time.monotonic() - self._used_at < _IDLE_SECONDS


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOLS = {"http": _Pool, "https": _TlsPool}
"""Scheme → connection pool."""


def _addresses(host: str, port: int, call: Call) -> list[Address]:
    """The permitted addresses of a host name. Raises OSError, and UnicodeError for an invalid name."""
    addresses = look_up(host, port, seconds=call.seconds_left())
    return [(family, address) for family, address in addresses if not call.public_only or is_public(address[0])]


def look_up(host: str, port: int, *, seconds: float) -> list[Address]:
    """The addresses of a host name. Raises OSError, and UnicodeError for an invalid name."""
    results: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    slots = _lookup_slots

    def resolve() -> None:
        try:
            results.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            results.put(error)
        finally:
            slots.release()

    # The resolver of the system has no timeout. It runs in a thread that is abandoned after the timeout; the number
    # of such threads is limited.
    if not slots.acquire(timeout=seconds):
        raise TimeoutError
    try:
        threading.Thread(target=resolve, name="resolve", daemon=True).start()
    except RuntimeError:
        slots.release()
        raise OSError("cannot start a thread") from None
    try:
        result = results.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return [(family, address) for family, *_, address in result]


def connect(addresses: Sequence[Address], *, deadline: float, options: Iterable[Any] = ()) -> socket.socket:
    """Connect to the first address that answers until the deadline (monotonic clock). `options` are of the socket.

    Raises OSError, and NoPermittedAddress without addresses.
    """
    for number, (family, address) in enumerate(addresses):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            for option in options:
                sock.setsockopt(*option)
            # An unresponsive address must leave time for the others.
            sock.settimeout(_seconds_until(deadline) / (len(addresses) - number))
            sock.connect(address)
            sock.settimeout(_seconds_until(deadline))
        except OSError:
            sock.close()
            if number == len(addresses) - 1:
                raise
        else:
            return sock
    raise NoPermittedAddress


def _seconds_until(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def is_public(address: str) -> bool:
    """True if an IP address is public: not local to a machine or site, and not for a special use."""
    ip = ipaddress.ip_address(address)
    return all(
        inner.is_global
        and not inner.is_multicast
        and inner not in METADATA
        and not any(inner in net for net in _NOT_PUBLIC)
        for inner in _with_inner(ip)
    )


def _with_inner(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterator[Any]:
    """The address, and the IPv4 address that it embeds (RFC 3056, RFC 4291 §2.5.5.2, RFC 6052)."""
    yield ip
    if isinstance(ip, ipaddress.IPv6Address):
        for inner in (ip.sixtofour, ip.ipv4_mapped):
            if inner is not None:
                yield inner
        if ip in _NAT64:
            yield ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)

"""TCP ports on loopback for servers that a test starts later."""

from __future__ import annotations

import atexit
import secrets
import socket
from collections import deque

# Linux assigns ports from 32768 to outgoing connections and to sockets without a chosen port.
_FIRST, _COUNT = 20_000, 12_000

_MAX_CLAIMS = 256
"""Limits the open files of this process; no test needs a port that long."""
_claims: deque[socket.socket] = deque()
"""UDP sockets that claim the TCP ports of the same numbers, oldest first."""


@atexit.register
def _close_claims() -> None:
    for claim in _claims:
        claim.close()


def free_port() -> int:
    """A TCP port that is unused and is not returned to another process of any test run on this machine."""
    while True:
        port = _FIRST + secrets.randbelow(_COUNT)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        if len(_claims) > _MAX_CLAIMS:
            _claims.popleft().close()
        return port


def is_listening(port: int) -> bool:
    """Return True if a server accepts connections on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

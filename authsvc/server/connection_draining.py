"""Stops accepting connections without resetting one that the kernel has already completed.

Closing a listening socket resets the connections in its queue, and with them requests that a proxy must not repeat.
Therefore a socket filter first drops new connection attempts while queued and open connections are served. A client
repeats a dropped attempt after a second; by then the port is closed, it is refused, and a proxy uses the next server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

SECONDS = 0.3
"""Time to complete handshakes in progress; shorter than the second after which a client repeats a dropped attempt."""
_SO_ATTACH_FILTER = 26
# Classic BPF (Linux, networking/filter.rst): drops TCP segments with SYN and without ACK.
_INSTRUCTIONS = (
    (0x30, 0, 0, 13),  # load the byte of flags
    (0x54, 0, 0, 0x12),  # keep SYN and ACK of it
    (0x15, 0, 1, 0x02),  # only SYN?
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)
_OPEN_FILES = Path("/proc/self/fd")


def refuse_new_connections() -> bool:
    """Drop connection attempts at all listening sockets of this process. Returns False on systems other than Linux."""
    if sys.platform != "linux":
        return False
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _INSTRUCTIONS)
    code = ctypes.create_string_buffer(program, len(program))
    option = struct.pack("HL", len(_INSTRUCTIONS), ctypes.addressof(code))
    for number in _descriptors():
        # The descriptor may have been closed meanwhile, or may be no socket.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as listener:
            is_tcp = listener.type == socket.SOCK_STREAM and listener.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)
    return True


def _descriptors() -> list[int]:
    try:
        return [int(path.name) for path in _OPEN_FILES.iterdir()]
    except OSError:
        return []

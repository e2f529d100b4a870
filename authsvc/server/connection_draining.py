"""Takes no further connections without losing one: what the kernel has completed is answered, what begins is not.

A listening socket that is closed resets the connections that wait in its queue, and with them requests that a proxy
must not send again. So the door is closed first, for those who are only about to come in, while everybody inside is
served. They get no answer; when they ask again, a second later, they are refused, and a proxy goes to the next server.
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
"""For connections that are being made, far longer than they take, and shorter than the second until one asks again."""
_SO_ATTACH_FILTER = 26
# Classic BPF (Linux, networking/filter.rst): the byte of flags in the TCP header, of which SYN without ACK is dropped.
_INSTRUCTIONS = (
    (0x30, 0, 0, 13),  # load that byte
    (0x54, 0, 0, 0x12),  # SYN and ACK of it
    (0x15, 0, 1, 0x02),  # only SYN?
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)
_OPEN_FILES = Path("/proc/self/fd")


def close_door() -> bool:
    """Let no listening socket of this process begin another connection; False where the system cannot (not Linux)."""
    if sys.platform != "linux":
        return False
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _INSTRUCTIONS)
    code = ctypes.create_string_buffer(program, len(program))
    option = struct.pack("HL", len(_INSTRUCTIONS), ctypes.addressof(code))
    for number in _descriptors():
        # It may have been closed meanwhile, or be no socket at all.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            is_tcp = found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)
    return True


def _descriptors() -> list[int]:
    try:
        return [int(path.name) for path in _OPEN_FILES.iterdir()]
    except OSError:
        return []

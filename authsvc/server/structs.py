"""Has msgspec look at every struct before there are threads.

It looks at a struct when it first reads one, and a second thread that reads the same struct meanwhile ends the process
with a segmentation fault (seen with msgspec 0.22.0, under load in the first moments of a server).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec


def look_at_all() -> None:
    """To be called by every process with threads, once every module is loaded and before the first of them starts."""
    for struct in _below(msgspec.Struct):
        # One that cannot be read, because it is only ever written, is none that a thread could wait for.
        with contextlib.suppress(TypeError, NameError):
            msgspec.json.Decoder(struct)


def _below(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _below(struct)

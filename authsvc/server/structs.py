"""Makes msgspec inspect every struct before there are threads.

msgspec inspects a struct when it first decodes one. A second thread that decodes the same struct meanwhile crashes the
process with a segmentation fault (seen with msgspec 0.22.0, under load right after the start of a server).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec


def inspect_all() -> None:
    """Inspect every struct of the service.

    Must be called in every process with threads, after all modules are loaded and before the first thread starts.
    """
    for struct in _subclasses(msgspec.Struct):
        # A struct that is only encoded may not be decodable; then no thread decodes it.
        with contextlib.suppress(TypeError, NameError):
            msgspec.json.Decoder(struct)


def _subclasses(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _subclasses(struct)

"""A set of SHA-1 digests in little memory, which now and then takes an unknown one for a member (a Bloom filter)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from threading import Lock

_FULL = 0.8


class BloomFilter:
    """Made for `items` digests; at that many, `false_positives` (a share between 0 and 1) is the error it makes.

    It is emptied before it would hold more than four fifths of them.
    """

    def __init__(self, *, items: int, false_positives: float) -> None:
        per_item = -math.log(false_positives) / math.log(2) ** 2
        # A power of two, so that every odd step visits every bit before one comes twice.
        bits = 1 << max(3, math.ceil(math.log2(items * per_item)))
        self._bits = bytearray(bits // 8)
        self._mask = bits - 1
        self._steps = max(1, math.ceil(per_item * math.log(2)))
        self._most = int(items * _FULL)
        self._held = 0
        self._lock = Lock()

    def __contains__(self, digest: bytes) -> bool:
        return all(self._bits[bit >> 3] & 1 << (bit & 7) for bit in self._places(digest))

    def add(self, digests: Iterable[bytes]) -> None:
        """Add digests of 20 bytes; more at once than there is room for at all are left out."""
        with self._lock:
            new = [digest for digest in digests if digest not in self]
            if self._held + len(new) > self._most:
                self._bits[:] = bytes(len(self._bits))
                self._held = 0
            for digest in new[: self._most]:
                for bit in self._places(digest):
                    self._bits[bit >> 3] |= 1 << (bit & 7)
            self._held += len(new[: self._most])

    def _places(self, digest: bytes) -> Iterator[int]:
        # The digest is as good as random beyond its first bytes, which all digests of one range have in common.
        place = int.from_bytes(digest[4:12])
        step = int.from_bytes(digest[12:20]) | 1
        for _ in range(self._steps):
            yield place & self._mask
            place += step

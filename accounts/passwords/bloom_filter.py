"""A Bloom filter for SHA-1 digests: a set in little memory, with false positives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from threading import Lock

_FULL_SHARE = 0.8


class BloomFilter:
    """A filter for `items` digests, with a rate of `false_positives` (between 0 and 1) when it holds that many.

    It is emptied before it would hold more than 80 % of `items`.
    """

    def __init__(self, *, items: int, false_positives: float) -> None:
        per_item = -math.log(false_positives) / math.log(2) ** 2
        # A power of two, so that every odd step visits all bits before it repeats one.
        bits = 1 << max(3, math.ceil(math.log2(items * per_item)))
        self._bits = bytearray(bits // 8)
        self._mask = bits - 1
        self._hashes = max(1, math.ceil(per_item * math.log(2)))
        self._max_items = int(items * _FULL_SHARE)
        self._count = 0
        self._lock = Lock()

    def __contains__(self, digest: bytes) -> bool:
        return all(self._bits[bit >> 3] & 1 << (bit & 7) for bit in self._positions(digest))

    def add(self, digests: Iterable[bytes]) -> None:
        """Add digests of 20 bytes; digests beyond the capacity are left out."""
        with self._lock:
            new = [digest for digest in digests if digest not in self]
            if self._count + len(new) > self._max_items:
                self._bits[:] = bytes(len(self._bits))
                self._count = 0
            for digest in new[: self._max_items]:
                for bit in self._positions(digest):
                    self._bits[bit >> 3] |= 1 << (bit & 7)
            self._count += len(new[: self._max_items])

    def _positions(self, digest: bytes) -> Iterator[int]:
        # Digests of one range share their first bytes; the others are uniformly distributed.
        position = int.from_bytes(digest[4:12])
        step = int.from_bytes(digest[12:20]) | 1
        for _ in range(self._hashes):
            yield position & self._mask
            position += step

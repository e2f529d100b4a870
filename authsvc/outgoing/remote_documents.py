"""A cache of remote documents: bounded, fetched by one thread per document, and used when stale."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Generic, TypeVar

from authsvc.outgoing import bulkhead

Key = TypeVar("Key", bound=Hashable)
Document = TypeVar("Document")

_MAX_ENTRIES = 256
RETRY_INTERVAL = 5.0
"""Seconds without another attempt after a failure or a forced fetch, so that clients cannot cause many requests."""


class _Entry(Generic[Document]):
    """The state of one document; times are values of the clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.document: Document | None = None
        self.failure = ""
        self.loaded_at = self.tried_at = self.renewed_at = float("-inf")


class DocumentCache(Generic[Key, Document]):
    """`load` fetches the document of a key, or raises `error`. `clock` returns seconds.

    `remaining` is the time left for a fetch, or raises `error`. `max_age` is the age at which a document is fetched
    again.
    """

    def __init__(
        self,
        load: Callable[[Key], Document],
        *,
        error: type[Exception],
        max_age: Callable[[], timedelta],
        remaining: Callable[[], timedelta],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._error = error
        self._max_age = max_age
        self._remaining = remaining
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self.entries: OrderedDict[Key, _Entry[Document]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: Key) -> Document:
        """The document, at most as old as `max_age` unless it cannot be fetched again.

        Raises the error of `load` when it was never fetched, without another attempt during RETRY_INTERVAL.
        """
        entry = self._entry(key)
        requested_at = self._clock()
        document = entry.document
        if document is not None:
            if self._is_due(entry) and entry.lock.acquire(blocking=False):  # other threads use the stale document
                try:
                    return self._fetch(key, entry)
                except self._error:  # no time left
                    return document
                finally:
                    entry.lock.release()
            return document
        with self._acquire(entry.lock):
            # A thread that waited for the lock uses the result of the other thread, including a failure.
            if entry.document is None and (entry.tried_at >= requested_at or self._is_recent(entry.tried_at)):
                raise self._error(entry.failure)
            return entry.document if entry.document is not None else self._fetch(key, entry)

    def renew(self, key: Key, *, than: Document) -> Document:
        """A newer document than `than`; `than` itself when there is none, or when it was just fetched.

        Raises the error of `load` when another thread holds the lock too long.
        """
        entry = self._entry(key)
        with self._acquire(entry.lock):
            if entry.document is not None and entry.document is not than:
                return entry.document
            if self._is_recent(entry.renewed_at):
                return than
            entry.document = than
            newer = self._fetch(key, entry)
            entry.renewed_at = self._clock()
            return newer

    @contextmanager
    def _acquire(self, lock: threading.Lock) -> Iterator[None]:
        """Acquire the lock; another thread may hold it during a request. Raises the error of `load`, ServiceBusy."""
        if not lock.acquire(blocking=False):
            with bulkhead.wait_for("documents"):
                has_lock = lock.acquire(timeout=self._remaining().total_seconds())
            if not has_lock:
                raise self._error("timed out")
        try:
            yield
        finally:
            lock.release()

    def _entry(self, key: Key) -> _Entry[Document]:
        with self._guard:
            entry = self.entries.get(key)
            if entry is None:
                if len(self.entries) >= _MAX_ENTRIES:
                    self.entries.popitem(last=False)
                entry = self.entries[key] = _Entry()
            elif entry.document is not None:
                self.entries.move_to_end(key)
            return entry

    def _fetch(self, key: Key, entry: _Entry[Document]) -> Document:
        """Fetch the document; the caller holds the entry's lock.

        Raises the error of `load` without a document, and when no time is left, which is not stored as a failure.
        """
        self._remaining()
        try:
            entry.document = self._load(key)
        except self._error as error:
            entry.failure = str(error)
            entry.tried_at = self._clock()
            if entry.document is None:
                self._move_to_front(key)
                raise
            return entry.document
        entry.loaded_at = entry.tried_at = self._clock()
        return entry.document

    def _move_to_front(self, key: Key) -> None:
        """Documents that were never fetched are evicted first."""
        with self._guard:
            if key in self.entries:
                self.entries.move_to_end(key, last=False)

    def _is_due(self, entry: _Entry[Document]) -> bool:
        return self._clock() - entry.loaded_at >= self._max_age().total_seconds() and not self._is_recent(
            entry.tried_at
        )

    def _is_recent(self, since: float) -> bool:
        return self._clock() - since < RETRY_INTERVAL

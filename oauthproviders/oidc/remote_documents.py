"""Documents of other servers, kept for a time: few in number, fetched by one thread at a time, used on when stale."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from authsvc import conf
from oauthproviders.base import deadline
from oauthproviders.errors import Unusable

Place = TypeVar("Place", bound=Hashable)
Document = TypeVar("Document")

_MOST = 256
PAUSE = 5.0
"""Seconds after a failure, or after a fetch out of turn, in which none is tried again: nobody from outside can make
this service call others as often as they like."""


class _Entry(Generic[Document]):
    """What is known of one place; times are those of the clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.document: Document | None = None
        self.failure = ""
        self.loaded_at = self.tried_at = self.renewed_at = float("-inf")


@contextmanager
def _held(lock: threading.Lock) -> Iterator[None]:
    """Hold the lock; whoever has it may be waiting for an answer. Raises Unusable when that takes too long."""
    if not lock.acquire(timeout=deadline.left().total_seconds()):
        raise Unusable("timed out")
    try:
        yield
    finally:
        lock.release()


class Documents(Generic[Place, Document]):
    """`load` fetches the document at a place, or raises Unusable. `clock` gives seconds from any point in time on."""

    def __init__(self, load: Callable[[Place], Document], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        self._entries: OrderedDict[Place, _Entry[Document]] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, place: Place) -> Document:
        """The document, not older than a setting allows unless it cannot be had anew.

        Raises Unusable when it was never had, and for some seconds after that without another try.
        """
        entry = self._entry(place)
        asked_at = self._clock()
        document = entry.document
        if document is not None:
            if self._is_due(entry) and entry.lock.acquire(blocking=False):  # others use the stale one meanwhile
                try:
                    return self._fetch(place, entry)
                except Unusable:  # no time left
                    return document
                finally:
                    entry.lock.release()
            return document
        with _held(entry.lock):
            # Who had to wait for the lock takes what came of it, a failure too.
            if entry.document is None and (entry.tried_at >= asked_at or self._is_pausing(entry.tried_at)):
                raise Unusable(entry.failure)
            return entry.document if entry.document is not None else self._fetch(place, entry)

    def renew(self, place: Place, *, than: Document) -> Document:
        """A newer document `than` that; the same when there is none, or when it has just been asked for.

        Raises Unusable when another thread takes too long over it.
        """
        entry = self._entry(place)
        with _held(entry.lock):
            if entry.document is not None and entry.document is not than:
                return entry.document
            if self._is_pausing(entry.renewed_at):
                return than
            entry.document = than
            newer = self._fetch(place, entry)
            entry.renewed_at = self._clock()
            return newer

    def _entry(self, place: Place) -> _Entry[Document]:
        with self._guard:
            entry = self._entries.get(place)
            if entry is None:
                if len(self._entries) >= _MOST:
                    self._entries.popitem(last=False)
                entry = self._entries[place] = _Entry()
            elif entry.document is not None:
                self._entries.move_to_end(place)
            return entry

    def _fetch(self, place: Place, entry: _Entry[Document]) -> Document:
        """Fetch with the entry's lock held.

        Raises Unusable when there is no document, and when the caller has no time left: that is kept of no place.
        """
        deadline.left()
        try:
            entry.document = self._load(place)
        except Unusable as error:
            entry.failure = str(error)
            entry.tried_at = self._clock()
            if entry.document is None:
                self._put_last(place)
                raise
            return entry.document
        entry.loaded_at = entry.tried_at = self._clock()
        return entry.document

    def _put_last(self, place: Place) -> None:
        """What nobody has ever got must not drive out what is in use."""
        with self._guard:
            if place in self._entries:
                self._entries.move_to_end(place, last=False)

    def _is_due(self, entry: _Entry[Document]) -> bool:
        greatest = conf.current().federation.discovery_max_age.total_seconds()
        return self._clock() - entry.loaded_at >= greatest and not self._is_pausing(entry.tried_at)

    def _is_pausing(self, since: float) -> bool:
        return self._clock() - since < PAUSE

"""Keeps what has been fetched: per process one source for each kind, loaded by one thread at a time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from authsvc import conf
from authsvc.messaging import EmailKind
from mailer.rendering import message_types, template_sources
from mailer.rendering.template_sources import Origin, Source

_AGING = 0.9
"""Part of the greatest age at which a template is fetched again before anybody needs it."""
_SHORTEST_PAUSE = timedelta(seconds=1)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    origin: Origin
    source: Source
    loaded_at: float
    tried_at: float
    """When loading was last tried, with or without success."""
    stands_in: bool
    """The built-in body, because there was no success yet."""


class SourceCache:
    """`clock` gives seconds from any point in time on."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        self._kept: dict[EmailKind, _Kept] = {}
        self._locks = {kind: threading.Lock() for kind in EmailKind}
        self._asked_at = self._clock()

    def get(self, kind: EmailKind) -> Source:
        """What mails of this kind are made from now; never fails, and fetches only what is not there or is stale.

        What cannot be loaded is logged; then the last good template is used on, or the built-in body.
        """
        self._asked_at = self._clock()
        return self._current(kind, is_due=self._is_stale).source

    def refresh(self) -> None:
        """Fetch again what would soon be stale, and what could not be had, unless nobody sends mail."""
        config = conf.current().mailer
        idle = self._clock() - self._asked_at
        if not config.template_reloading_enabled or idle > config.template_reloading_max_idle.total_seconds():
            return
        for kind in EmailKind:
            if template_sources.origin(kind).url and message_types.is_enabled(kind):
                self._current(kind, is_due=self._is_aging)

    def _current(self, kind: EmailKind, *, is_due: Callable[[_Kept], bool]) -> _Kept:
        origin = template_sources.origin(kind)
        kept = self._kept.get(kind)
        if kept is not None and kept.origin == origin and not is_due(kept):
            return kept
        with self._locks[kind]:
            kept = self._kept.get(kind)
            # Who had to wait for the lock finds what was loaded meanwhile.
            if kept is None or kept.origin != origin or is_due(kept):
                self._kept[kind] = kept = self._load(kind, origin, kept)
            return kept

    def _load(self, kind: EmailKind, origin: Origin, kept: _Kept | None) -> _Kept:
        try:
            source, failed = template_sources.load(kind, origin), False
        except template_sources.TemplateUnusable as problem:
            _logger.error(
                "the template of a mail could not be loaded: %s",
                problem,
                extra={"event": problem.event, "mail_type": kind.value},
            )
            if kept is not None and kept.origin == origin:
                return replace(kept, tried_at=self._clock())
            source, failed = template_sources.built_in(kind, origin), True
        now = self._clock()
        return _Kept(origin=origin, source=source, loaded_at=now, tried_at=now, stands_in=failed)

    def _is_stale(self, kept: _Kept) -> bool:
        """Built-in bodies that nothing was to replace do not age."""
        return bool(kept.origin.url) and self._age(kept) >= 1 and self._may_try(kept)

    def _is_aging(self, kept: _Kept) -> bool:
        return (kept.stands_in or self._age(kept) > _AGING) and self._may_try(kept)

    def _age(self, kept: _Kept) -> float:
        """In parts of the greatest age."""
        greatest = conf.current().mailer.template_max_age.total_seconds()
        return (self._clock() - kept.loaded_at) / greatest if greatest > 0 else 1

    def _may_try(self, kept: _Kept) -> bool:
        pause = conf.current().mailer.template_retry_interval.total_seconds()
        return self._clock() - kept.tried_at >= pause


shared = SourceCache()
"""The cache of this process."""

# A lock that another thread held at the time of a fork would never be given back.
os.register_at_fork(after_in_child=shared.forget)


def refresh_interval() -> timedelta:
    """Between two rounds of `refresh`."""
    return max(_SHORTEST_PAUSE, conf.current().mailer.template_retry_interval / 4)

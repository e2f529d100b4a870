"""Caches the templates of each email type per process. One thread at a time loads a type."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from authsvc import conf, languages
from authsvc.messaging import EmailType
from mailer.rendering import message_types, template_sources
from mailer.rendering.template_sources import MessageTemplates, TemplateConfig

_REFRESH_FRACTION = 0.9
"""Fraction of the maximum age at which `refresh` loads templates again, before they are stale."""
_MIN_REFRESH_INTERVAL = timedelta(seconds=1)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheEntry:
    config: TemplateConfig
    templates: MessageTemplates
    loaded_at: float
    attempted_at: float
    """Time of the last attempt to load, successful or not."""
    is_fallback: bool
    """True for built-in templates that replace templates which could not be loaded."""


class TemplateCache:
    """`clock` returns monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self._entries: dict[tuple[EmailType, str], _CacheEntry] = {}
        self._locks = {type: threading.Lock() for type in EmailType}
        self._last_used_at = self._clock()

    def get(self, type: EmailType, language: str = conf.ENGLISH) -> MessageTemplates:
        """The templates of an email type in this language. Never raises, and loads only missing and stale ones.

        A failed load is logged; the last valid templates remain in use, or else the built-in ones.
        """
        self._last_used_at = self._clock()
        return self._current(type, language, needs_load=self._is_stale).templates

    def refresh(self) -> None:
        """Load templates that will soon be stale or have failed to load, unless the cache has long been unused."""
        config = conf.current().mailer
        idle = self._clock() - self._last_used_at
        if not config.template_reloading_enabled or idle > config.template_reloading_max_idle.total_seconds():
            return
        for type in EmailType:
            if template_sources.template_config(type).url and message_types.is_enabled(type):
                for language in languages.offered():
                    self._current(type, language, needs_load=self._is_aging)

    def _current(self, type: EmailType, language: str, *, needs_load: Callable[[_CacheEntry], bool]) -> _CacheEntry:
        config = template_sources.template_config(type, language)
        entry = self._entries.get((type, language))
        if entry is not None and entry.config == config and not needs_load(entry):
            return entry
        with self._locks[type]:
            entry = self._entries.get((type, language))
            # Another thread may have loaded the templates while this one waited for the lock.
            if entry is None or entry.config != config or needs_load(entry):
                self._entries[type, language] = entry = self._load(type, config, entry)
            return entry

    def _load(self, type: EmailType, config: TemplateConfig, entry: _CacheEntry | None) -> _CacheEntry:
        try:
            templates, is_fallback = template_sources.load_templates(type, config), False
        except template_sources.TemplateLoadError as error:
            _logger.error(
                "email template could not be loaded: %s",
                error,
                extra={"event": error.event, "mail_type": type.value},
            )
            if entry is not None and entry.config == config:
                return replace(entry, attempted_at=self._clock())
            templates, is_fallback = template_sources.built_in_templates(type, config), True
        now = self._clock()
        return _CacheEntry(config=config, templates=templates, loaded_at=now, attempted_at=now, is_fallback=is_fallback)

    def _is_stale(self, entry: _CacheEntry) -> bool:
        """Built-in templates are never stale unless they are a fallback."""
        return bool(entry.config.url) and self._age(entry) >= 1 and self._can_retry(entry)

    def _is_aging(self, entry: _CacheEntry) -> bool:
        return (entry.is_fallback or self._age(entry) > _REFRESH_FRACTION) and self._can_retry(entry)

    def _age(self, entry: _CacheEntry) -> float:
        """Age as a fraction of the maximum age."""
        max_age = conf.current().mailer.template_max_age.total_seconds()
        return (self._clock() - entry.loaded_at) / max_age if max_age > 0 else 1

    def _can_retry(self, entry: _CacheEntry) -> bool:
        interval = conf.current().mailer.template_retry_interval.total_seconds()
        return self._clock() - entry.attempted_at >= interval


shared = TemplateCache()
"""The cache of this process."""

# A lock that another thread holds during a fork would never be released in the child.
os.register_at_fork(after_in_child=shared.clear)


def refresh_interval() -> timedelta:
    """Interval between two calls of `refresh`."""
    return max(_MIN_REFRESH_INTERVAL, conf.current().mailer.template_retry_interval / 4)

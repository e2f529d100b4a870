"""Selects the language of hosted pages and of messages. The API, the console and the logs are English."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from django.conf.locale import LANG_INFO
from django.utils import translation
from django.utils.translation.trans_real import parse_accept_lang_header

from authsvc import conf

_MAX_TAG_LENGTH = 35
"""Of a language tag (RFC 5646 §4.4.1)."""

preferred: ContextVar[str] = ContextVar("authsvc_preferred_languages", default="")
"""The Accept-Language header of the current request; inside `use`, the language of the page."""


def offered() -> tuple[str, ...]:
    """The languages that users can get; the first one is the default."""
    config = conf.current()
    if config.languages.offered:
        return config.languages.offered
    return conf.installed_languages(config.languages) if config.pages.enabled else (conf.ENGLISH,)


def default() -> str:
    return offered()[0]


def names() -> dict[str, str]:
    """The offered languages, each with its name in that language."""
    return {code: name_of(code) for code in offered()}


def name_of(code: str) -> str:
    """The name of a language in that language; the code if the name is unknown."""
    info: Mapping[str, Any] = LANG_INFO.get(code, {})
    return str(info.get("name_local", code)).capitalize()


def select(*tags: str) -> str:
    """The first offered language among these tags (RFC 5646), which may be empty or invalid; else the default."""
    languages = offered()
    return next((found for tag in tags if (found := _find(tag, languages))), languages[0])


def of_user(user_metadata: Mapping[str, Any]) -> str:
    """The offered language of the user's `locale`; empty if the user has none.

    `locale` has the form of the OpenID Connect claim (Core §5.1), also with an underscore.
    """
    locale = user_metadata.get("locale")
    return _find(locale, offered()) if isinstance(locale, str) else ""


def of_request() -> str:
    """The language of the page, else the best of the Accept-Language header, else the default."""
    return accepted(preferred.get())


def accepted(header: str) -> str:
    """The offered language that an Accept-Language header prefers (RFC 9110 §12.5.4), else the default."""
    languages = offered()
    if len(languages) == 1 or not header:
        return languages[0]
    return select(*(tag for tag, quality in parse_accept_lang_header(header) if quality and tag != "*"))


@contextmanager
def use(language: str) -> Iterator[None]:
    """Texts that are rendered in the block, and messages that it causes, are in this language."""
    token = preferred.set(language)
    try:
        with translation.override(language):
            yield
    finally:
        preferred.reset(token)


def translate(text: str, language: str) -> str:
    """The text in this language; unchanged if it has no translation."""
    with translation.override(language):
        return translation.gettext(text)


@lru_cache(maxsize=1024)
def _find(tag: str, languages: tuple[str, ...]) -> str:
    """Lookup (RFC 4647 §3.4); a language without region also finds its first regional variant. Empty: none."""
    if len(tag) > _MAX_TAG_LENGTH:
        return ""
    requested = tag.lower().replace("_", "-")
    shorter = requested
    while shorter:
        if shorter in languages:
            return shorter
        shorter = shorter.rpartition("-")[0]
    return next((code for code in languages if requested and code.startswith(f"{requested}-")), "")

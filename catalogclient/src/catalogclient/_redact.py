"""Makes URLs and messages safe to log: no query, user or password, and no control characters."""

from __future__ import annotations

from urllib.parse import urlsplit

_MAX_LENGTH = 500


def one_line(text: str) -> str:
    """Return `text` cut to 500 characters, with control characters escaped so that it cannot forge log lines."""
    cut = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
    return escape(cut)


def escape(text: str) -> str:
    """Return `text` with a Python escape in place of each unprintable character."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def url_without_secrets(url: str) -> str:
    """Return `url` without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path

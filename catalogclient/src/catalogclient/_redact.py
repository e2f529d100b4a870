"""Makes URLs and messages safe to log: no query, user or password, and no control characters."""

from __future__ import annotations

from urllib.parse import urlsplit

_MAX_LENGTH = 500


def one_line(text: str) -> str:
    """Return `text` cut to 500 characters, with control characters escaped so that it cannot forge log lines."""
    cut = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
    return cut if cut.isprintable() else "".join(each if each.isprintable() else _escaped(each) for each in cut)


def url_without_secrets(url: str) -> str:
    """Return `url` without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()

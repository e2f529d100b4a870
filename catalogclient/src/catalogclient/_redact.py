"""What may be shown of what must not be: addresses without query and user, texts without control characters."""

from __future__ import annotations

from urllib.parse import urlsplit

_LONGEST = 500


def one_line(text: str) -> str:
    """`text` cut to 500 characters, with control characters escaped so that it cannot forge lines of a log."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return cut if cut.isprintable() else "".join(each if each.isprintable() else _escaped(each) for each in cut)


def address(url: str) -> str:
    """`url` without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()

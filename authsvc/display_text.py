"""Texts that clients, other servers and operators have chosen, as the console, hosted pages and reports show them."""

from __future__ import annotations

import json
import re

EMPTY = "–"
_MAX_LENGTH = 200
# Control characters, and marks that change the direction of the text around a value.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_INVISIBLE_EXCEPT_BREAKS = re.compile(f"(?![\n\r\t]){_INVISIBLE.pattern}")


def short_text(value: object) -> str:
    """A value in one short line; `EMPTY` for none and for an empty text, list or object."""
    if value is None or value in ("", [], {}, ()):
        return EMPTY
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    cut = f"{text[:_MAX_LENGTH]}…" if len(text) > _MAX_LENGTH else text
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", cut)


def without_invisible_characters(text: str) -> str:
    """The text with replacement characters for invisible ones other than tabs and line breaks."""
    return _INVISIBLE_EXCEPT_BREAKS.sub("\N{REPLACEMENT CHARACTER}", text)

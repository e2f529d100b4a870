"""Escapes values for each context of HTML, so that a value cannot become markup or code."""

from __future__ import annotations

import re
from typing import Any, Literal

REFUSED = "ZgotmplZ"
"""Replaces values that cannot be made safe. Go's html/template uses the same text."""

AttributeKind = Literal["link", "markup", "script", "style", "text"]

_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "\0": "\N{REPLACEMENT CHARACTER}"}
)
_UNQUOTED = _HTML | {ord(char): f"&#{ord(char)};" for char in " \t\n\f\r\v=`"}
_STYLE_SAFE = re.compile(r"[\w .,%#-]*", re.ASCII)
_SCRIPT_UNSAFE = re.compile(r"[^0-9A-Za-z]")
_LINKS = frozenset(
    {"action", "archive", "background", "cite", "classid", "codebase", "data", "formaction", "href", "icon", "longdesc"}
    | {"manifest", "ping", "poster", "profile", "src", "usemap", "xmlns"}
)
_MARKUP = frozenset({"srcdoc", "srcset", "imagesrcset"})


def kind_of(attribute: str) -> AttributeKind:
    """The kind of value of an attribute, named in lower case."""
    name = attribute.removeprefix("data-").rpartition(":")[2]
    if name.startswith("on"):
        return "script"
    if name == "style":
        return "style"
    if name in _MARKUP:
        return "markup"
    return "link" if name in _LINKS or any(word in name for word in ("src", "uri", "url")) else "text"


def html(text: str) -> str:
    """For text between tags and for quoted attribute values."""
    return text.translate(_HTML)


def unquoted(text: str) -> str:
    """For unquoted attribute values. An empty value is replaced, because the next attribute would become the value."""
    return text.translate(_UNQUOTED) or REFUSED


def style(text: str) -> str:
    """For CSS: numbers, colours and names only."""
    return text if _STYLE_SAFE.fullmatch(text) else REFUSED


def script(value: Any, text: str) -> str:
    """For strings in scripts and JSON, with escapes that are valid in every kind of string literal."""
    return text if isinstance(value, bool | int | float) else _SCRIPT_UNSAFE.sub(_utf16_escape, text)


def _utf16_escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4))

"""Tracks the position in the HTML output and escapes every value for it.

The template's literal text drives a small tokenizer that follows the HTML standard. Values never change its state,
because characters that could do so are escaped or rejected. Comments are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from mailer.gotemplate import escapes, links, values

_OPENING = re.compile(r"<(?:(?P<comment>!--)|(?P<other>[!?])|(?P<tag>/?)(?=[a-zA-Z]))|<")
_SPACE_OR_SLASH = re.compile(r"[\s/]*")
_SPACE = re.compile(r"\s*")
_TAG_NAME = re.compile(r"[^\s/>]*")
_ATTRIBUTE_NAME = re.compile(r"[^\s=/>]*")
_UNQUOTED_END = re.compile(r"[\s>]")

# Elements whose content is raw text up to their end tag.
_RAW = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})


class _State(Enum):
    TEXT = auto()
    RAW = auto()
    COMMENT = auto()
    DECLARATION = auto()
    TAG_NAME = auto()
    TAG = auto()
    ATTRIBUTE_NAME = auto()
    AFTER_ATTRIBUTE_NAME = auto()
    BEFORE_VALUE = auto()
    VALUE = auto()


class HtmlWriter:
    """The state of one HTML text: the context of the next character."""

    def __init__(self) -> None:
        self._state = _State.TEXT
        self._tag = ""
        self._is_end_tag = False
        self._attribute = ""
        self._quote = ""
        self._link = links.Link()
        self._steps: dict[_State, Callable[[str, int, list[str]], int]] = {
            _State.TEXT: self._text,
            _State.RAW: self._raw,
            _State.COMMENT: self._comment,
            _State.DECLARATION: self._declaration,
            _State.TAG_NAME: self._tag_name,
            _State.TAG: self._inside_tag,
            _State.ATTRIBUTE_NAME: self._attribute_name,
            _State.AFTER_ATTRIBUTE_NAME: self._after_attribute_name,
            _State.BEFORE_VALUE: self._before_value,
            _State.VALUE: self._attribute_value,
        }

    def literal(self, text: str) -> str:
        written: list[str] = []
        position = 0
        while position < len(text):
            position = self._steps[self._state](text, position, written)
        return "".join(written)

    def value(self, value: Any) -> str:
        if self._state in (_State.COMMENT, _State.DECLARATION):
            return ""
        if isinstance(value, values.Encoded) and value.form in self._own_encodings():
            value = value.original
        text = values.text_of(value)
        match self._state:
            case _State.TEXT:
                return escapes.html(text)
            case _State.RAW:
                return self._raw_value(value, text)
            case _State.BEFORE_VALUE | _State.VALUE:
                return self._value_of_attribute(value, text)
        if not text:
            return ""
        # A tag or attribute name from a value could be an event handler.
        if self._state is _State.TAG_NAME:
            self._tag += escapes.REFUSED
        else:
            prefix = self._attribute if self._state is _State.ATTRIBUTE_NAME else ""
            self._attribute = prefix + escapes.REFUSED
            self._state = _State.ATTRIBUTE_NAME
        return escapes.REFUSED

    def _own_encodings(self) -> tuple[str, ...]:
        """Functions whose encoding this context applies itself."""
        if self._state is _State.VALUE and escapes.kind_of(self._attribute) == "link" and self._link.in_query:
            return ("html", "urlquery")
        return ("html", "js") if self._tag == "script" and self._state is _State.RAW else ("html",)

    def _raw_value(self, value: Any, text: str) -> str:
        if self._tag == "script":
            return escapes.script(value, text)
        if self._tag == "style":
            return escapes.style(text)
        return escapes.html(text)

    def _value_of_attribute(self, value: Any, text: str) -> str:
        if self._state is _State.BEFORE_VALUE:
            self._start_value("")
        match escapes.kind_of(self._attribute):
            case "link":
                text = self._link.value(text)
            case "style":
                text = escapes.style(text)
            case "script":
                text = escapes.script(value, text)
            case "markup":
                text = escapes.REFUSED
        return escapes.html(text) if self._quote else escapes.unquoted(text)

    # One method per state: writes the text that belongs to the state and returns the position after it.

    def _text(self, text: str, start: int, written: list[str]) -> int:
        match = _OPENING.search(text, start)
        if match is None:
            written.append(text[start:])
            return len(text)
        written.append(text[start : match.start()])
        if match["comment"]:
            self._state = _State.COMMENT
            return match.end() - 2  # `<!-->` is a whole comment
        if match["other"]:
            self._state = _State.DECLARATION
            written.append(match.group())
        elif match["tag"] is not None:
            self._state = _State.TAG_NAME
            self._tag, self._is_end_tag = "", match["tag"] == "/"
            written.append(match.group())
        else:
            written.append("&lt;")
        return match.end()

    def _raw(self, text: str, start: int, written: list[str]) -> int:
        match = re.compile(rf"</(?={self._tag}(?:[\s/>]|$))", re.IGNORECASE).search(text, start)
        end = len(text) if match is None else match.end()
        if match is not None:
            self._state = _State.TAG_NAME
            self._tag, self._is_end_tag = "", True
        written.append(text[start:end])
        return end

    def _comment(self, text: str, start: int, written: list[str]) -> int:
        end = text.find("-->", start)
        if end < 0:
            return len(text)
        self._state = _State.TEXT
        return end + 3

    def _declaration(self, text: str, start: int, written: list[str]) -> int:
        end = text.find(">", start) + 1
        if end:
            self._state = _State.TEXT
        written.append(text[start : end or len(text)])
        return end or len(text)

    def _tag_name(self, text: str, start: int, written: list[str]) -> int:
        name, end = _consume(_TAG_NAME, text, start, written)
        self._tag += name.lower()
        if end < len(text):
            self._state = _State.TAG
        return end

    def _inside_tag(self, text: str, start: int, written: list[str]) -> int:
        _, end = _consume(_SPACE_OR_SLASH, text, start, written)
        if text.startswith(">", end):
            self._state = _State.RAW if self._tag in _RAW and not self._is_end_tag else _State.TEXT
            written.append(">")
            return end + 1
        if end < len(text):
            self._attribute = ""
            self._state = _State.ATTRIBUTE_NAME
        return end

    def _attribute_name(self, text: str, start: int, written: list[str]) -> int:
        name, end = _consume(_ATTRIBUTE_NAME, text, start, written)
        self._attribute += name.lower()
        if end < len(text):
            self._state = _State.AFTER_ATTRIBUTE_NAME
        return end

    def _after_attribute_name(self, text: str, start: int, written: list[str]) -> int:
        _, end = _consume(_SPACE, text, start, written)
        if end == len(text):
            return end
        if text[end] != "=":
            self._state = _State.TAG
            return end
        self._state = _State.BEFORE_VALUE
        written.append("=")
        return end + 1

    def _before_value(self, text: str, start: int, written: list[str]) -> int:
        _, end = _consume(_SPACE, text, start, written)
        if end == len(text):
            return end
        if text[end] == ">":
            self._state = _State.TAG
            return end
        if text[end] in "\"'":
            written.append(text[end])
            self._start_value(text[end])
            return end + 1
        self._start_value("")
        return end

    def _attribute_value(self, text: str, start: int, written: list[str]) -> int:
        if self._quote:
            end = text.find(self._quote, start)
        else:
            match = _UNQUOTED_END.search(text, start)
            end = match.start() if match else -1
        part = text[start:] if end < 0 else text[start:end]
        written.append(self._link.literal(part) if escapes.kind_of(self._attribute) == "link" else part)
        if end < 0:
            return len(text)
        self._state = _State.TAG
        written.append(self._quote)
        return end + len(self._quote)

    def _start_value(self, quote: str) -> None:
        self._state = _State.VALUE
        self._quote = quote
        self._link = links.Link()


def _consume(pattern: re.Pattern[str], text: str, start: int, written: list[str]) -> tuple[str, int]:
    match = pattern.match(text, start)
    text_matched = match.group() if match else ""
    written.append(text_matched)
    return text_matched, start + len(text_matched)

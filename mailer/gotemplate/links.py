"""Escapes values in URL attributes according to the part of the URL in which they appear."""

from __future__ import annotations

import re
from urllib.parse import quote

from mailer.gotemplate import escapes

_SCHEMES = frozenset({"http", "https", "mailto"})
_SCRIPTING = frozenset({"javascript", "vbscript", "data"})
_DELIMITER = re.compile(r"[/?#:]")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Link:
    """One URL being written. `in_query` is true after the template's own `?` or `#`."""

    def __init__(self) -> None:
        self.in_query = False
        self._start: str | None = ""
        """The text before the first of `/ ? # :`; None once the scheme is determined and allowed."""
        self._holds_value = False
        self._is_script = False

    def literal(self, text: str) -> str:
        """The template's text; prefixed with REFUSED if it would turn a value into a scheme."""
        if "?" in text or "#" in text:
            self.in_query = True
        if self._start is None:
            return text
        delimiter = _DELIMITER.search(text)
        if delimiter is None:
            self._start += text
            return text
        scheme = (self._start + text[: delimiter.start()]).strip().lower()
        self._start = None
        if delimiter.group() != ":":
            return text
        if self._holds_value and scheme not in _SCHEMES:
            return f"#{escapes.REFUSED}{text}"
        self._is_script = scheme in _SCRIPTING
        return text

    def value(self, text: str) -> str:
        """A value, percent-encoded for its part of the URL; `#` and REFUSED for a scheme that is not allowed."""
        if self._is_script:
            return escapes.REFUSED
        if self._start is not None:
            whole = self._start + text
            delimiter = _DELIMITER.search(whole)
            is_scheme = delimiter is not None and delimiter.group() == ":"
            if is_scheme and whole.partition(":")[0].lower() not in _SCHEMES:
                self._start, self.in_query = None, True
                return f"#{escapes.REFUSED}"
            self._start = whole if delimiter is None else None
            self._holds_value = True
        if self.in_query:
            return quote(text, safe="", errors="replace")
        return quote(_STRAY_PERCENT.sub("%25", text), safe="%!#$&*+,/:;=?@[]", errors="replace")

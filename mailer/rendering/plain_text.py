"""Converts the HTML of an email to plain text, with paragraphs and written-out links.

Libraries for this purpose are under the GPL or need a parser in C, and emails need only this subset.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HIDDEN_TAGS = frozenset({"script", "style", "title", "template"})
_PARAGRAPH_TAGS = frozenset(
    {"blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "ul"}
)
_LINE_TAGS = frozenset(
    {"address", "article", "center", "dd", "div", "dt", "footer", "form", "header", "li", "main", "section", "tr"}
)
_CELL_TAGS = frozenset({"td", "th"})
_LINK_SCHEMES = ("http://", "https://", "mailto:", "tel:")
_SPACE = re.compile(r"\s+")
# The parser fails on some declarations, which contain no text.
_DECLARATION = re.compile(r"<![^>]*>")


def from_html(html: str) -> str:
    """The visible text of `html`; the address of a link follows its text in angle brackets."""
    reader = _Reader()
    reader.feed(_DECLARATION.sub("", html))
    reader.close()
    reader.handle_endtag("a")
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._written: list[str] = []
        self._breaks = 0
        """Line breaks to write before the next text."""
        self._space = False
        """Write a space before the next text on the same line."""
        self._hidden_depth = 0
        self._link: tuple[str, int] | None = None
        """Address of the open link, and the index in `_written` at which its text begins."""

    def text(self) -> str:
        return "".join(self._written) + "\n" if self._written else ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        attribute = dict(attributes)
        if tag in _HIDDEN_TAGS:
            self._hidden_depth += 1
        elif tag == "br":
            self._breaks = min(self._breaks + 1, 2)
        elif tag == "a":
            self._link = ((attribute.get("href") or "").strip(), len(self._written))
        elif tag == "img":
            self.handle_data(attribute.get("alt") or "")
        self._separate(tag)
        if tag == "li":
            self._write("-")
            self._space = True

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN_TAGS:
            self._hidden_depth = max(self._hidden_depth - 1, 0)
        elif tag == "a":
            self._end_link()
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        words = _SPACE.sub(" ", data)
        if self._hidden_depth:
            return
        self._space |= words.startswith(" ")
        if words.strip():
            self._write(words.strip())
            self._space = words.endswith(" ")

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPH_TAGS:
            self._breaks = 2
        elif tag in _LINE_TAGS:
            self._breaks = max(self._breaks, 1)
        elif tag in _CELL_TAGS:
            self._space = True

    def _end_link(self) -> None:
        if self._link is None:
            return
        address, begin = self._link
        self._link = None
        label = "".join(self._written[begin:]).strip()
        if address.lower().startswith(_LINK_SCHEMES) and label not in (address, address.partition(":")[2]):
            self._space = True
            self._write(f"<{address}>")

    def _write(self, text: str) -> None:
        if self._written:
            self._written.append("\n" * self._breaks if self._breaks else " " * self._space)
        self._breaks, self._space = 0, False
        self._written.append(text)

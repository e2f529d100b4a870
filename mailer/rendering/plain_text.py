"""The plain-text alternative of a mail that exists only as HTML: its text in paragraphs, its links written out.

Our own, because a mail needs no more than this, and the libraries that do more are under the GPL or come with a parser
in C.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = frozenset({"script", "style", "title", "template"})
_PARAGRAPHS = frozenset({"blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "ul"})
_LINES = frozenset(
    {"address", "article", "center", "dd", "div", "dt", "footer", "form", "header", "li", "main", "section", "tr"}
)
_CELLS = frozenset({"td", "th"})
_FOLLOWED = ("http://", "https://", "mailto:", "tel:")
_SPACE = re.compile(r"\s+")
# The parser stumbles over some declarations; none of them is text.
_DECLARATION = re.compile(r"<![^>]*>")


def of(html: str) -> str:
    """What a reader sees of `html`; behind the text of a link stands its address in angle brackets."""
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
        """Line breaks due before the next text."""
        self._space = False
        """A blank is due before the next text on the same line."""
        self._unseen = 0
        self._link: tuple[str, int] | None = None
        """Address of the open link, and where in `_written` its text begins."""

    def text(self) -> str:
        return "".join(self._written) + "\n" if self._written else ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in _UNSEEN:
            self._unseen += 1
        elif tag == "br":
            self._breaks = min(self._breaks + 1, 2)
        elif tag == "a":
            self._link = ((given.get("href") or "").strip(), len(self._written))
        elif tag == "img":
            self.handle_data(given.get("alt") or "")
        self._separate(tag)
        if tag == "li":
            self._write("-")
            self._space = True

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(self._unseen - 1, 0)
        elif tag == "a":
            self._end_link()
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        words = _SPACE.sub(" ", data)
        if self._unseen:
            return
        self._space |= words.startswith(" ")
        if words.strip():
            self._write(words.strip())
            self._space = words.endswith(" ")

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._breaks = 2
        elif tag in _LINES:
            self._breaks = max(self._breaks, 1)
        elif tag in _CELLS:
            self._space = True

    def _end_link(self) -> None:
        if self._link is None:
            return
        address, begin = self._link
        self._link = None
        label = "".join(self._written[begin:]).strip()
        if address.lower().startswith(_FOLLOWED) and label not in (address, address.partition(":")[2]):
            self._space = True
            self._write(f"<{address}>")

    def _write(self, text: str) -> None:
        if self._written:
            self._written.append("\n" * self._breaks if self._breaks else " " * self._space)
        self._breaks, self._space = 0, False
        self._written.append(text)

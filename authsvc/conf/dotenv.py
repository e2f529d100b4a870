"""The grammar of `.env` files: text in, variables out."""

from __future__ import annotations

import re

_BLANKS = " \t\r\v\f\u0085\u00a0"
_SKIPPED = re.compile(rf"(?:[{_BLANKS}\n]+|#[^\n]*)*+")
_KEY = re.compile(rf"(?:export[{_BLANKS}]+)?([\w.]+)[{_BLANKS}]*[=:][{_BLANKS}]*")
_SINGLE_QUOTED = re.compile(r"'(.*?)(?<!\\)'", re.DOTALL)
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_LINE = re.compile(r"[^\n]*")
_COMMENT = re.compile(rf"[{_BLANKS}]#")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_DECODED = {"n": "\n", "r": "\r"}


class DotenvError(ValueError):
    """A file that does not follow the grammar. Names the line, never its content, which may be a secret."""

    def __init__(self, reason: str, *, line: int) -> None:
        super().__init__(f"line {line}: {reason}")


def parse(text: str) -> dict[str, str]:
    """The variables of a `.env` file; of two with one name the later counts. Raises DotenvError.

    `KEY=value`, `KEY: value` and `export KEY=value`, comments behind `#`, single-quoted values as they stand,
    double-quoted ones with `\\n`, `\\r` and `\\c` for the character c; quoted values may span lines. `$` is a character
    like any other.
    """
    text = text.replace("\r\n", "\n")
    variables: dict[str, str] = {}
    position = _end(_SKIPPED, text, 0)
    while position < len(text):
        key = _KEY.match(text, position)
        if key is None:
            raise DotenvError("KEY=value is needed, with letters, digits, _ and . in KEY", line=_line(text, position))
        variables[key[1]], position = _value(text, key.end())
        position = _end(_SKIPPED, text, position)
    return variables


def _value(text: str, start: int) -> tuple[str, int]:
    """The value at `start`, and where the rest of its line ends."""
    quote = text[start : start + 1]
    if quote in ("'", '"'):
        quoted = (_SINGLE_QUOTED if quote == "'" else _DOUBLE_QUOTED).match(text, start)
        if quoted is None:
            raise DotenvError("the quoted value has no end", line=_line(text, start))
        value = quoted[1] if quote == "'" else _ESCAPE.sub(lambda found: _DECODED.get(found[1], found[1]), quoted[1])
        return value, _end(_LINE, text, quoted.end())
    end = _end(_LINE, text, start)
    # From one character before: the white space in front of a comment may be what follows the `=`.
    comment = _COMMENT.search(text, start - 1, end)
    return text[start : comment.start() if comment else end].strip(_BLANKS).replace("\\$", "$"), end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1

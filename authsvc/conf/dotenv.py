"""Parses `.env` files.

`environ.Env.read_env` cannot read files of Supabase Auth with `KEY: value` or with quoted values of several lines, and
it logs each line that it cannot parse, which may be a secret.
"""

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
    """A file with a syntax error. The message names the line but never its content, which may be a secret."""

    def __init__(self, reason: str, *, line: int) -> None:
        super().__init__(f"line {line}: {reason}")


def parse(text: str) -> dict[str, str]:
    """The variables of a `.env` file; the last one of a name counts. Raises DotenvError.

    The grammar is `KEY=value`, `KEY: value` and `export KEY=value`, with comments after `#`. Single-quoted values are
    literal; double-quoted ones decode `\\n`, `\\r` and `\\c` for the character c. Quoted values may span lines. `$` has
    no special meaning.
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
    """The value at `start`, and the position at which its line ends."""
    quote = text[start : start + 1]
    if quote in ("'", '"'):
        quoted = (_SINGLE_QUOTED if quote == "'" else _DOUBLE_QUOTED).match(text, start)
        if quoted is None:
            raise DotenvError("the quoted value has no end", line=_line(text, start))
        value = quoted[1] if quote == "'" else _ESCAPE.sub(lambda match: _DECODED.get(match[1], match[1]), quoted[1])
        return value, _end(_LINE, text, quoted.end())
    end = _end(_LINE, text, start)
    # Starts one character earlier: the white space before a comment may directly follow the `=`.
    comment = _COMMENT.search(text, start - 1, end)
    return text[start : comment.start() if comment else end].strip(_BLANKS).replace("\\$", "$"), end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1

"""Splits a template into literal text and actions, and actions into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

SPACE = " \t\r\n"

_TOKEN = re.compile(
    r"""
      (?P<trim>[ \t\r\n]+-\}\})
    | (?P<space>[ \t\r\n]+)
    | (?P<close>\}\})
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<raw>`[^`]*`)
    | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.]))
    | (?P<declare>:=)
    | (?P<assign>=)
    | (?P<pipe>\|)
    | (?P<comma>,)
    | (?P<left>\()
    | (?P<right>\))
    | (?P<variable>\$\w*)
    | (?P<field>\.[^\W\d]\w*)
    | (?P<dot>\.)
    | (?P<word>[^\W\d]\w*)
    """,
    re.VERBOSE,
)
_COMMENT_END = re.compile(r"[ \t\r\n]*\}\}|(?P<trim>[ \t\r\n]+-\}\})")
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.|$))")
_NAMED_ESCAPES = dict(zip('abfnrtv\\"', '\a\b\f\n\r\t\v\\"', strict=True))


class TemplateSyntaxError(ValueError):
    """The template is not valid. The message contains the line and the unexpected text."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


class Token(NamedTuple):
    kind: str
    text: str
    spaced: bool
    """True if whitespace precedes the token; distinguishes the arguments `.A .B` from the path `.A.B`."""


@dataclass(frozen=True, slots=True)
class TextItem:
    text: str


@dataclass(frozen=True, slots=True)
class ActionItem:
    tokens: tuple[Token, ...]
    line: int


def split(source: str) -> list[TextItem | ActionItem]:
    """Text and actions in order, without comments and without whitespace beside `{{-` and `-}}`.

    Raises TemplateSyntaxError.
    """
    items: list[TextItem | ActionItem] = []
    position, line, trim = 0, 1, False
    while True:
        opening = source.find("{{", position)
        text = source[position:] if opening < 0 else source[position:opening]
        line += text.count("\n")
        if trim:
            text = text.lstrip(SPACE)
        if opening < 0:
            if text:
                items.append(TextItem(text))
            return items
        inside = opening + 2
        if source.startswith("-", inside) and _skip_space(source, inside + 1) > inside + 1:
            inside += 1
            text = text.rstrip(SPACE)
        if text:
            items.append(TextItem(text))
        start = _skip_space(source, inside)
        if source.startswith("/*", start):
            position, trim = _skip_comment(source, start, line)
        else:
            tokens, position, trim = _tokens(source, inside, line)
            items.append(ActionItem(tokens, line))
        line += source.count("\n", opening, position)


def unquote(token: Token, line: int) -> str:
    """The value of a string or raw string token. Raises TemplateSyntaxError for an invalid escape."""
    body = token.text[1:-1]
    if token.kind == "raw":
        return body.replace("\r", "")

    def character(match: re.Match[str]) -> str:
        named, octal, *hexadecimal, bad = match.groups()
        if named:
            return _NAMED_ESCAPES[named]
        point = int(octal, 8) if octal else int(next((digits for digits in hexadecimal if digits), "-1"), 16)
        if bad is not None or not 0 <= point <= 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise TemplateSyntaxError(f"bad escape in {token.text[:40]}", line)
        return chr(point)

    return _ESCAPE.sub(character, body)


def _skip_space(source: str, position: int) -> int:
    while position < len(source) and source[position] in SPACE:
        position += 1
    return position


def _skip_comment(source: str, start: int, line: int) -> tuple[int, bool]:
    end = source.find("*/", start + 2)
    if end < 0:
        raise TemplateSyntaxError("unclosed comment", line)
    closing = _COMMENT_END.match(source, end + 2)
    if closing is None:
        raise TemplateSyntaxError("comment ends before the closing braces", line)
    return closing.end(), closing["trim"] is not None


def _tokens(source: str, position: int, line: int) -> tuple[tuple[Token, ...], int, bool]:
    tokens: list[Token] = []
    spaced = False
    while True:
        match = _TOKEN.match(source, position)
        if match is None:
            excerpt = source[position : position + 10]
            raise TemplateSyntaxError(f"unexpected {excerpt!r}" if excerpt else "unclosed action", line)
        position = match.end()
        kind = match.lastgroup or ""
        if kind in ("close", "trim"):
            return tuple(tokens), position, kind == "trim"
        if kind == "space":
            spaced = True
            continue
        tokens.append(Token(kind, match.group(), spaced))
        spaced = False

"""The functions of templates, with their minimum and maximum number of arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from mailer.gotemplate import escapes, values

_JS_ESCAPES = str.maketrans(
    {chr(point): f"\\u{point:04X}" for point in (*range(32), *map(ord, "<>&="), 0x2028, 0x2029)}
    | {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
_VERB = re.compile(r"%(?P<flags>[-+# 0]{0,5})(?P<width>[0-9]{1,3})?(?:\.(?P<precision>[0-9]{0,2}))?(?P<verb>[a-zA-Z%])")


@dataclass(frozen=True, slots=True)
class Function:
    run: Callable[..., Any]
    min_arguments: int
    max_arguments: int | None = None
    """None: no maximum."""


def _print(*arguments: Any) -> str:
    text, previous = "", None
    for position, value in enumerate(arguments):
        if position and not isinstance(value, str) and not isinstance(previous, str):
            text += " "
        text += values.text_of(value)
        previous = value
    return text


def _println(*arguments: Any) -> str:
    return " ".join(map(values.text_of, arguments)) + "\n"


def _printf(pattern: Any, *arguments: Any) -> str:
    remaining = list(arguments)

    def formatted(match: re.Match[str]) -> str:
        if match["verb"] == "%":
            return "%"
        if not remaining:
            return ""
        return _format(remaining.pop(0), match["verb"], match["flags"], int(match["width"] or 0), match["precision"])

    return _VERB.sub(formatted, values.text_of(pattern))


def _format(value: Any, verb: str, flags: str, width: int, precision: str | None) -> str:
    """Format one value with one verb; a verb that does not fit the value behaves as `%v`."""
    text = values.text_of(value)
    if values.is_number(value) and verb in "dxXobcfFeEgG" and abs(value) < 1e300:
        if verb in "dxXobc":
            return _integer(int(value), verb, flags, width)
        fraction = "" if precision is None else f".{precision or 0}"
        return str(f"%{flags}{width or ''}{fraction}{verb}" % value)
    if verb in "xX" and isinstance(value, str):
        text = text.encode().hex() if verb == "x" else text.encode().hex().upper()
    elif verb == "q":
        text = json.dumps(text, ensure_ascii=False)
    elif precision is not None and verb in "sv":
        text = text[: int(precision or 0)]
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _integer(value: int, verb: str, flags: str, width: int) -> str:
    if verb == "c":
        text = chr(value) if 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else "\N{REPLACEMENT CHARACTER}"
    elif verb == "b":
        text = f"{value:b}"
    else:
        return str(f"%{flags}{width or ''}{verb}" % value)
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | Mapping) else 0


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = values.member(value, key)
    return value


def _slice(value: Any, start: Any = 0, end: Any = None, _capacity: Any = None) -> Any:
    if not isinstance(value, str | list | tuple):
        return None
    end = len(value) if end is None else end
    if not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (start, end)):
        return None
    return value[start:end] if 0 <= start <= end <= len(value) else None


def _single(arguments: tuple[Any, ...]) -> str:
    return values.text_of(arguments[0]) if len(arguments) == 1 else _print(*arguments)


def _html(*arguments: Any) -> str:
    original = _single(arguments)
    return values.Encoded.of(escapes.html(original), form="html", original=original)


def _js(*arguments: Any) -> str:
    original = _single(arguments)
    return values.Encoded.of(original.translate(_JS_ESCAPES), form="js", original=original)


def _urlquery(*arguments: Any) -> str:
    original = _single(arguments)
    return values.Encoded.of(quote_plus(original, safe=""), form="urlquery", original=original)


def _and(*arguments: Any) -> Any:
    return next((value for value in arguments if not values.is_true(value)), arguments[-1])


def _or(*arguments: Any) -> Any:
    return next((value for value in arguments if values.is_true(value)), arguments[-1])


def _equal_any(first: Any, *others: Any) -> bool:
    return any(values.equal(first, other) for other in others)


def _at_most(one: Any, other: Any) -> bool:
    return values.less(one, other) or values.equal(one, other)


TABLE: Mapping[str, Function] = {
    "and": Function(_and, 1),
    "or": Function(_or, 1),
    "not": Function(lambda value: not values.is_true(value), 1, 1),
    "eq": Function(_equal_any, 2),
    "ne": Function(lambda one, other: not values.equal(one, other), 2, 2),
    "lt": Function(values.less, 2, 2),
    "le": Function(_at_most, 2, 2),
    "gt": Function(lambda one, other: values.less(other, one), 2, 2),
    "ge": Function(lambda one, other: _at_most(other, one), 2, 2),
    "len": Function(_length, 1, 1),
    "index": Function(_index, 1),
    "slice": Function(_slice, 1, 4),
    "print": Function(_print, 0),
    "println": Function(_println, 0),
    "printf": Function(_printf, 1),
    "html": Function(_html, 1),
    "js": Function(_js, 1),
    "urlquery": Function(_urlquery, 1),
}

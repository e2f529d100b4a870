"""The glob patterns of URI_ALLOW_LIST as regular expressions."""

from __future__ import annotations

import re

_SEPARATORS = "./"
# `[a-z]` or `[abc]`. A hyphen in second place always means a range, and then the range is the whole list.
_BRACKET = re.compile(r"\[(!?+)(?:([^\\])-(.)|(?!.-)((?:\\.|[^\]\\])+))\]", re.DOTALL)


def compile_pattern(text: str) -> re.Pattern[str]:
    """The allow-list glob `text` as a regular expression for `fullmatch`.

    `*` any run without `.` and `/`, `**` any run, `?` one character but `.` and `/`, `[abc]`, `[!abc]`, `[a-z]`,
    `[!a-z]` one character, `{p,q}` alternatives, `\\c` the character c. Raises ValueError for anything unfinished.
    """
    expression, position, depth = "", 0, 0
    while position < len(text):
        character = text[position]
        position += 1
        match character:
            case "*" if text.startswith("*", position):
                expression, position = expression + ".*", position + 1
            case "*":
                expression += f"[^{_SEPARATORS}]*"
            case "?":
                expression += f"[^{_SEPARATORS}]"
            case "[":
                bracket = _BRACKET.match(text, position - 1)
                if bracket is None:
                    raise ValueError(f"pattern {text!r} has a bracket that is neither a list nor a single range")
                expression, position = expression + _character_class(bracket), bracket.end()
            case "{":
                expression, depth = expression + "(?:", depth + 1
            case "}" if depth:
                expression, depth = expression + ")", depth - 1
            case "," if depth:
                expression += "|"
            case "\\":
                if position == len(text):
                    raise ValueError(f"pattern {text!r} ends in a lone backslash")
                expression, position = expression + re.escape(text[position]), position + 1
            case _:
                expression += re.escape(character)
    if depth:
        raise ValueError(f"pattern {text!r} has an unclosed brace")
    return re.compile(expression, re.DOTALL)


def _character_class(bracket: re.Match[str]) -> str:
    negation, low, high, members = bracket.groups()
    if members is not None:
        body = re.escape(re.sub(r"\\(.)", r"\1", members, flags=re.DOTALL))
    elif low <= high:
        body = f"{re.escape(low)}-{re.escape(high)}"
    else:
        raise ValueError(f"pattern {bracket.string!r} has a range that runs backwards")
    return f"[{'^' if negation else ''}{body}]"

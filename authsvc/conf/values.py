"""The grammar of single values: one function for each type a setting can have, raising ValueError with the reason."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any
from urllib.parse import unquote

from authsvc.conf import durations, schema

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"([+-]?)(?:([0-9]+)|0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+))")
_BASES = (10, 16, 8, 2)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})")
_LONGEST_NUMBER = 64
_WHOLE = 2**63
_MOST_EVENTS = 2**52
_LEVELS = frozenset({"panic", "fatal", "error", "warning", "info", "debug", "trace"})
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")


def quoted(text: str) -> str:
    """`text` in double quotes and on one line."""
    return json.dumps(text, ensure_ascii=False)


def flag(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise ValueError("must be true or false")
    return text in _TRUE


def integer(text: str, *, low: int = -_WHOLE, high: int = _WHOLE - 1) -> int:
    """Decimal, or behind 0x, 0o or 0b; a sign may stand in front."""
    found = _INTEGER.fullmatch(text)
    if found is None or len(text) > _LONGEST_NUMBER:
        raise ValueError("not a whole number")
    sign, *forms = found.groups()
    value = next(int(digits, base) for digits, base in zip(forms, _BASES, strict=True) if digits)
    value = -value if sign == "-" else value
    if not low <= value <= high:
        raise ValueError(f"must be at least {low}" if value < low else f"must be at most {high}")
    return value


def number(text: str) -> float:
    """A finite number that is not negative: no setting has a use for one below zero."""
    if _FLOAT.fullmatch(text) is None or len(text) > _LONGEST_NUMBER:
        raise ValueError("not a number")
    value = float(text)
    if value < 0 or not math.isfinite(value):
        raise ValueError("out of range")
    return value


def length_in_seconds(text: str) -> timedelta:
    """A number of seconds, in part if need be."""
    value = number(text)
    if value > durations.LIMIT.total_seconds():
        raise ValueError("longer than 292 years")
    return timedelta(seconds=value)


def seconds(text: str) -> timedelta:
    """A bare number of seconds, or a duration; neither below zero."""
    if text.isascii() and text.isdecimal():
        return whole_seconds(text)
    length = durations.parse(text)
    if length < timedelta():
        raise ValueError("must not be negative")
    return length


def whole_seconds(text: str) -> timedelta:
    return timedelta(seconds=integer(text, low=0, high=durations.LIMIT // timedelta(seconds=1)))


def items(text: str) -> tuple[str, ...]:
    """Comma separated, each element as it stands; a blank text holds none."""
    return tuple(text.split(",")) if text.strip() else ()


def pairs(text: str) -> dict[str, str]:
    """`k:v,k2:v2`."""
    found = [item.split(":") for item in items(text)]
    if any(len(item) != 2 for item in found):
        raise ValueError("every item must be key:value")
    return {item[0]: item[1] for item in found}


def assignments(text: str) -> dict[str, str]:
    """`k=v,k2=v2` with blanks around each part; neither side may be empty."""
    found = [[part.strip() for part in item.split("=")] for item in items(text)]
    if any(len(item) != 2 or not all(item) for item in found):
        raise ValueError("every item must be name=value")
    return {item[0]: item[1] for item in found}


def codes_of_phones(text: str) -> dict[str, str]:
    """`number:code,…`; the numbers become bare digits."""
    return {"".join(phone.split()).removeprefix("+"): code.strip() for phone, code in pairs(text).items()}


def moment(text: str) -> datetime | None:
    """RFC 3339, with white space around it; None when blank."""
    if not text.strip():
        return None
    if _MOMENT.fullmatch(text.strip()) is None:
        raise ValueError("not a time of RFC 3339")
    return datetime.fromisoformat(text.strip())


def resource_attributes(text: str) -> dict[str, str]:
    """`k=v,k2=v2` with percent-encoded values, as OTEL_RESOURCE_ATTRIBUTES is defined."""
    found = [item.partition("=") for item in items(text)]
    if not all(key.strip() and mark for key, mark, _ in found):
        raise ValueError("every item must be key=value")
    return {key.strip(): unquote(value.strip()) for key, _, value in found}


def networks(text: str) -> tuple[schema.Network, ...]:
    return tuple(ip_network(item.strip(), strict=False) for item in items(text))


def character_sets(text: str) -> tuple[str, ...]:
    """Sets between colons, `\\:` being a colon inside one; empty sets are dropped."""
    return tuple(part.replace("\\:", ":") for part in re.split(r"(?<!\\):", text) if part)


def rate(text: str) -> schema.Rate:
    """`N` for a window of an hour, `N/D` for a bucket of N refilled by one each D (an hour when D is not positive)."""
    events, is_bucket, over = text.partition("/")
    if "/" in over or not (is_bucket or _FLOAT.fullmatch(text)):
        raise ValueError(f"rate: value does not match rate syntax {quoted(text)}")
    try:
        count = integer(events, low=0) if is_bucket else math.floor(number(events))
        if count >= _MOST_EVENTS:
            raise ValueError("too many")
    except ValueError as error:
        raise ValueError(f"rate: events part of rate value {quoted(text)} failed to parse: {error}") from None
    if not is_bucket:
        return schema.Rate(events=count)
    try:
        length = durations.parse(over)
    except ValueError as error:
        raise ValueError(f"rate: over-time part of rate value {quoted(text)} failed to parse: {error}") from None
    return schema.Rate(events=count, over=length if length > timedelta() else timedelta(hours=1))


def level(text: str) -> str:
    lowered = text.lower()
    name = "warning" if lowered == "warn" else lowered
    if name not in _LEVELS:
        raise ValueError(f"not a valid log level: {quoted(text)}")
    return name


def logged_sql(text: str) -> str:
    if text not in ("none", "statement", "all"):
        raise ValueError("must be one of none, statement, all")
    return text


def server(text: str) -> schema.Server:
    try:
        return schema.Server(text)
    except ValueError:
        raise ValueError(f"must be one of {', '.join(schema.Server)}") from None


def dotted_name(text: str) -> str:
    if text and _DOTTED_NAME.fullmatch(text) is None:
        raise ValueError("not the dotted name of a class")
    return text


def json_object(text: str) -> dict[str, Any]:
    """A blank text is the empty object."""
    value = _json(text) if text.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def header_lists(text: str) -> dict[str, tuple[str, ...]]:
    """`{"Name": ["value", …]}`."""
    found = json_object(text)
    if not all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in found.values()):
        raise ValueError("not a JSON object of lists of strings")
    return {name: tuple(values) for name, values in found.items()}


def hosts(text: str) -> frozenset[str]:
    """A JSON array of names or addresses, in lower case and without the dot of the root; a blank text holds none."""
    value = _json(text) if text.strip() else []
    if not isinstance(value, list) or not all(isinstance(host, str) for host in value):
        raise ValueError("not a JSON array of strings")
    return frozenset(host.strip().lower().removesuffix(".") for host in value if host.strip())


def web_keys(text: str) -> tuple[dict[str, Any], ...]:
    """A JSON array of objects; a blank text holds none, an empty array is a mistake."""
    if not text.strip():
        return ()
    value = _json(text)
    if not isinstance(value, list) or not all(isinstance(key, dict) for key in value):
        raise ValueError("not a JSON array of JSON Web Keys")
    if not value:
        raise ValueError("no signing key detected")
    return tuple(value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The parser's own words may quote the text, which may be a secret.
        raise ValueError("not JSON") from None

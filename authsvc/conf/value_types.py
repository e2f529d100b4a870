"""The types of settings: each parses the text of a variable and describes itself in errors and in the reference."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any, Generic, TypeVar
from urllib.parse import unquote, urlsplit

from authsvc.conf import durations
from authsvc.conf.types import Network, Rate, Secret
from authsvc.conf.url_patterns import compile_pattern

Value_co = TypeVar("Value_co", covariant=True)

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"([+-]?)(?:([0-9]+)|0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+))")
_BASES = (10, 16, 8, 2)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})")
_MAX_NUMBER_LENGTH = 64
_INT64 = 2**63
_MAX_EVENTS = 2**52
_LOG_LEVELS = frozenset({"panic", "fatal", "error", "warning", "info", "debug", "trace"})
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_EMBEDDED = "embedded:"


def quote(text: str) -> str:
    """`text` in double quotes and on one line."""
    return json.dumps(text, ensure_ascii=False)


def format_default(value: object) -> str:
    """A value as an operator writes it; empty where nothing is set."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.10f}".rstrip("0").rstrip(".")
        case timedelta():
            # `10m` instead of `10m0s`
            return re.sub(r"(?<=[hm])0[ms](?:0s)?$", "", durations.text(value))
        case Rate():
            return f"{value.events}/{durations.text(value.over)}" if value.over else str(value.events)
        case tuple() | frozenset():
            return ",".join(str(item) for item in value)
        case Secret() | Mapping() | None:
            return ""
    return str(value)


def format_seconds(value: object) -> str:
    """A length of time as a plain number of seconds."""
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else format_default(value)


@dataclass(frozen=True, slots=True)
class ValueType(Generic[Value_co]):
    name: str
    """The name of the type in errors: `invalid <name> "<text>"`."""
    parse: Callable[[str], Value_co]
    """Raises ValueError with a reason that tells what to write and does not quote the text."""
    description: str = ""
    """The name of the type in the reference; `name` when empty."""
    format: Callable[[object], str] = format_default
    is_secret: bool = False


def _parse_boolean(text: str) -> bool:
    if text not in _TRUE and text not in _FALSE:
        raise ValueError("must be true or false")
    return text in _TRUE


def _parse_integer(text: str) -> int:
    """Decimal, or with the prefix 0x, 0o or 0b; with an optional sign; 64 bits."""
    match = _INTEGER.fullmatch(text)
    if match is None or len(text) > _MAX_NUMBER_LENGTH:
        raise ValueError("not a whole number, such as 10")
    sign, *digits_by_base = match.groups()
    value = next(int(digits, base) for digits, base in zip(digits_by_base, _BASES, strict=True) if digits)
    value = -value if sign == "-" else value
    if not -_INT64 <= value < _INT64:
        raise ValueError("does not fit into 64 bits")
    return value


def _parse_count(text: str, maximum: int = _INT64 - 1) -> int:
    value = _parse_integer(text)
    if not 0 <= value <= maximum:
        raise ValueError("must be at least 0" if value < 0 else f"must be at most {maximum}")
    return value


def _parse_port(text: str) -> int:
    value = _parse_integer(text)
    if not 1 <= value <= 65535:
        raise ValueError("must be between 1 and 65535")
    return value


def _parse_number(text: str) -> float:
    """A finite number that is not negative."""
    if _FLOAT.fullmatch(text) is None or len(text) > _MAX_NUMBER_LENGTH:
        raise ValueError("not a number, such as 1.5")
    value = float(text)
    if value < 0 or not math.isfinite(value):
        raise ValueError("out of range")
    return value


def _parse_fractional_seconds(text: str) -> timedelta:
    value = _parse_number(text)
    if value > durations.LIMIT.total_seconds():
        raise ValueError("longer than 292 years")
    return timedelta(seconds=value)


def _parse_whole_seconds(text: str) -> timedelta:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not a whole number of seconds, such as 3600")
    return timedelta(seconds=_parse_count(text, durations.LIMIT // timedelta(seconds=1)))


def _parse_seconds(text: str) -> timedelta:
    """A bare number of seconds, or a duration; not negative."""
    if text.isascii() and text.isdecimal():
        return _parse_whole_seconds(text)
    length = durations.parse(text)
    if length < timedelta():
        raise ValueError("must not be negative")
    return length


def _parse_list(text: str) -> tuple[str, ...]:
    """Elements between commas, not trimmed; a blank text is the empty list."""
    return tuple(text.split(",")) if text.strip() else ()


def _parse_trimmed_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _parse_durations(text: str) -> tuple[timedelta, ...]:
    return tuple(durations.parse(item) for item in _parse_trimmed_list(text))


def _format_durations(value: object) -> str:
    return ",".join(map(format_default, value)) if isinstance(value, tuple) else ""


def _parse_pairs(text: str) -> dict[str, str]:
    """`k:v,k2:v2`."""
    pairs = [item.split(":") for item in _parse_list(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("every item must be key:value")
    return {pair[0]: pair[1] for pair in pairs}


def _parse_assignments(text: str) -> dict[str, str]:
    """`k=v,k2=v2` with blanks around each part; neither side may be empty."""
    pairs = [[part.strip() for part in item.split("=")] for item in _parse_list(text)]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise ValueError("every item must be name=value")
    return {pair[0]: pair[1] for pair in pairs}


def _parse_secrets(text: str) -> tuple[Secret, ...]:
    return tuple(Secret(part) for part in text.split("|") if part)


def _parse_test_codes(text: str) -> dict[str, str]:
    """`phone:code,…`; phones become bare digits."""
    return {"".join(phone.split()).removeprefix("+"): code.strip() for phone, code in _parse_pairs(text).items()}


def _parse_time(text: str) -> datetime | None:
    """RFC 3339, with white space around it; None when blank."""
    if not text.strip():
        return None
    if _TIME.fullmatch(text.strip()) is None:
        raise ValueError("not a time of RFC 3339, such as 2030-12-31T23:59:59Z")
    return datetime.fromisoformat(text.strip())


def _parse_resource_attributes(text: str) -> dict[str, str]:
    """`k=v,k2=v2` with percent-encoded values, as OpenTelemetry defines OTEL_RESOURCE_ATTRIBUTES."""
    pairs = [item.partition("=") for item in _parse_list(text)]
    if not all(key.strip() and separator for key, separator, _ in pairs):
        raise ValueError("every item must be key=value")
    return {key.strip(): unquote(value.strip()) for key, _, value in pairs}


def parse_networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(item.strip(), strict=False) for item in _parse_list(text))


def _parse_character_sets(text: str) -> tuple[str, ...]:
    """Sets between colons; `\\:` is a colon inside a set. Empty sets are dropped."""
    return tuple(part.replace("\\:", ":") for part in re.split(r"(?<!\\):", text) if part)


def _parse_url_patterns(text: str) -> tuple[str, ...]:
    patterns = _parse_list(text)
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"invalid pattern {quote(pattern)}: {error}") from None
    return patterns


def _parse_rate(text: str) -> Rate:
    """`N`: a window of one hour. `N/D`: a bucket that gains one each D, or each hour when D is not positive."""
    events, slash, over = text.partition("/")
    if "/" in over or not (slash or _FLOAT.fullmatch(text)):
        raise ValueError(f"rate: value does not match rate syntax {quote(text)}")
    try:
        count = _parse_count(events) if slash else math.floor(_parse_number(events))
        if count >= _MAX_EVENTS:
            raise ValueError("too many")
    except ValueError as error:
        raise ValueError(f"rate: events part of rate value {quote(text)} failed to parse: {error}") from None
    if not slash:
        return Rate(events=count)
    try:
        length = durations.parse(over)
    except ValueError as error:
        raise ValueError(f"rate: over-time part of rate value {quote(text)} failed to parse: {error}") from None
    return Rate(events=count, over=length if length > timedelta() else timedelta(hours=1))


def _parse_log_level(text: str) -> str:
    lowered = text.lower()
    name = "warning" if lowered == "warn" else lowered
    if name not in _LOG_LEVELS:
        raise ValueError(f"not a valid log level: {quote(text)}; use one of {', '.join(sorted(_LOG_LEVELS))}")
    return name


def _parse_http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_absolute = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_absolute = False
    if not is_absolute:
        raise ValueError("must be an absolute http(s) URL, such as https://auth.example.com")
    return text


def _parse_database_url(text: str) -> Secret:
    is_embedded = text.startswith(_EMBEDDED) and text.strip() != _EMBEDDED
    if text and not is_embedded and not text.startswith(("postgres://", "postgresql://")):
        raise ValueError("must be postgres://… or embedded:<folder>")
    return Secret(text)


def _parse_dotted_name(text: str) -> str:
    if text and _DOTTED_NAME.fullmatch(text) is None:
        raise ValueError("not the dotted name of a class")
    return text


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The message of the parser may quote the text, which may be a secret.
        raise ValueError("not JSON") from None


def _parse_json_object(text: str) -> dict[str, Any]:
    """A blank text is the empty object."""
    value = _parse_json(text) if text.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _parse_header_lists(text: str) -> dict[str, tuple[str, ...]]:
    """`{"Name": ["value", …]}`."""
    headers = _parse_json_object(text)
    if not all(isinstance(values, list) and all(isinstance(v, str) for v in values) for values in headers.values()):
        raise ValueError("not a JSON object of lists of strings")
    return {name: tuple(values) for name, values in headers.items()}


def _parse_hosts(text: str) -> frozenset[str]:
    """A JSON array of names or addresses; lower case, without the dot of the root. A blank text is the empty set."""
    value = _parse_json(text) if text.strip() else []
    if not isinstance(value, list) or not all(isinstance(host, str) for host in value):
        raise ValueError("not a JSON array of strings")
    return frozenset(host.strip().lower().removesuffix(".") for host in value if host.strip())


def _parse_web_keys(text: str) -> tuple[dict[str, Any], ...]:
    """A JSON array of objects. A blank text is no keys; an empty array is an error."""
    if not text.strip():
        return ()
    value = _parse_json(text)
    if not isinstance(value, list) or not all(isinstance(key, dict) for key in value):
        raise ValueError("not a JSON array of JSON Web Keys")
    if not value:
        raise ValueError("no signing key detected")
    return tuple(value)


def choice(*values: str, allows_empty: bool = False) -> ValueType[str]:
    """One of a few texts."""

    def parse(text: str) -> str:
        if text not in values and not (allows_empty and not text):
            raise ValueError(f"must be {'one of ' if len(values) > 1 else ''}{', '.join(values)}")
        return text

    return ValueType("choice", parse, " or ".join(f"`{value}`" for value in values))


def _secret_map(text: str) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in _parse_pairs(text).items()}


BOOLEAN = ValueType("bool", _parse_boolean, "true or false")
ONLY_TRUE = ValueType("bool", lambda text: text == "true", "only `true` counts")
"""For variables that other programs read too and that have other values there."""
TEXT = ValueType("string", str, "text")
SECRET = ValueType("string", Secret, "text", is_secret=True)
STRIPPED_SECRET = ValueType("string", lambda text: Secret(text.strip()), "text", is_secret=True)
INTEGER = ValueType("int", _parse_integer, "whole number")
COUNT = ValueType("uint", _parse_count, "whole number, not negative")
PORT = ValueType("port", _parse_port, format=lambda port: str(port or ""))
NUMBER = ValueType("float", _parse_number, "number")
TRUNCATED_NUMBER = ValueType("float", lambda text: int(_parse_number(text)), "number")
DURATION = ValueType("duration", durations.parse, "duration (`24h`, `1h30m`)")
SECONDS = ValueType("seconds", _parse_seconds, "seconds, or duration")
WHOLE_SECONDS = ValueType("uint", _parse_whole_seconds, "whole number of seconds", format_seconds)
DURATIONS = ValueType("list of durations", _parse_durations, "durations, with commas", _format_durations)
FRACTIONAL_SECONDS = ValueType("float", _parse_fractional_seconds, "number of seconds", format_seconds)
TIME = ValueType("time", _parse_time, "time (RFC 3339)")
LIST = ValueType("list", _parse_list, "list, with commas")
TRIMMED_LIST = ValueType("list", _parse_trimmed_list, "list, with commas")
NETWORKS = ValueType("list of networks", parse_networks, "networks (CIDR), with commas")
URL_PATTERNS = ValueType("list of patterns", _parse_url_patterns, "URL patterns, with commas")
CHARACTER_SETS = ValueType("character sets", _parse_character_sets, "character sets, with colons")
SECRETS = ValueType("list", _parse_secrets, "texts, separated by `|`", is_secret=True)
SECRET_MAP = ValueType("map", _secret_map, "`name:value` pairs, with commas", is_secret=True)
TEST_CODES = ValueType("map", _parse_test_codes, "`phone:code` pairs, with commas", is_secret=True)
ASSIGNMENTS = ValueType("map", _parse_assignments, "`name=value` pairs, with commas")
RESOURCE_ATTRIBUTES = ValueType("map", _parse_resource_attributes, "`name=value` pairs, with commas")
RATE = ValueType("rate", _parse_rate, "`N`, or `N/duration`")
LOG_LEVEL = ValueType("level", _parse_log_level, ", ".join(f"`{level}`" for level in sorted(_LOG_LEVELS)))
HTTP_URL = ValueType("URL", _parse_http_url, "http(s) URL")
OPTIONAL_HTTP_URL = ValueType(
    "URL", lambda text: _parse_http_url(text).removesuffix("/") if text else "", "http(s) URL"
)
PLAIN_URL = ValueType("string", lambda text: text.removesuffix("/"), "URL")
DATABASE_URL = ValueType("URL", _parse_database_url, "database URL", is_secret=True)
DOTTED_NAME = ValueType("dotted name", _parse_dotted_name)
JSON_OBJECT = ValueType("JSON", _parse_json_object, "JSON object", is_secret=True)
HEADER_LISTS = ValueType("JSON", _parse_header_lists, "JSON object", is_secret=True)
HOSTS = ValueType("JSON", _parse_hosts, "JSON array")
WEB_KEYS = ValueType("key set", _parse_web_keys, "JSON array", is_secret=True)

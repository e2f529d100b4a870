"""Addresses: checking the root, cleaning the prefix, and encoding names so that what goes out comes back.

What is built here must be sent as it is: software that "normalises" an address turns `%2E` into a dot, and so one name
into another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote, unquote, urlsplit

from catalogclient._identifiers import TableIdentifier
from catalogclient.errors import InvalidArgumentError, InvalidResponseError

_PLACEHOLDER = re.compile(r"\{([a-z-]+)\}")
_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
# Everything else that RFC 3986 §3.3 does not allow in a path is encoded; percent signs in front of hex digits stay.
_PATH_SAFE = "/%-._~!$&'()*+,;=:@"
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

_PATH = re.compile(r"(?:[A-Za-z0-9/._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")

PathValue: TypeAlias = str | tuple[str, ...]
"""A segment, or the levels of a namespace."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A namespace as the value of a query parameter."""

    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    """The views through which a table is read, outermost first, as the value of a query parameter."""

    views: tuple[TableIdentifier, ...]


QueryValue: TypeAlias = str | int | bool | Levels | References


@dataclass(frozen=True, slots=True)
class Separator:
    """What stands between the levels of a namespace: in a path, and in a query before its encoding."""

    encoded: str

    @classmethod
    def given(cls, text: str) -> Separator:
        """The separator that a server or caller wrote, percent-encoded or not. It must not be empty."""
        encoded = text if unquote(text) != text else quote(text, safe="")
        # An unreserved character is its own encoding (RFC 3986 §2.3), and between levels it must not look like one.
        return cls(encoded if "%" in encoded else "".join(f"%{octet:02X}" for octet in encoded.encode()))

    @property
    def plain(self) -> str:
        return unquote(self.encoded)

    def in_path(self, levels: Sequence[str]) -> str:
        return self.encoded.join(quote(level, safe="") for level in levels)

    def in_query(self, levels: Sequence[str]) -> str:
        """The levels joined, not yet encoded.

        Servers decode before they split, so levels that hold the separator are joined with U+001F, which all take.
        """
        held = any(self.plain in level for level in levels)
        return (UNIT_SEPARATOR.plain if held else self.plain).join(levels)


UNIT_SEPARATOR = Separator("%1F")
"""What servers understand that announce nothing else."""


def root(base_url: str) -> str:
    """`base_url` without slashes at its end.

    Raises InvalidArgumentError unless it is an address over HTTP or HTTPS without user, query and fragment.
    """
    check(base_url, name="base_url")
    if "?" in base_url:
        raise InvalidArgumentError("base_url must have no query")
    return base_url.rstrip("/")


def check(url: object, *, name: str) -> None:
    """Raises InvalidArgumentError unless `url` is an address over HTTP or HTTPS without user and fragment."""
    problem = _problem(url)
    if problem:
        # The address itself is not repeated: it may hold a password.
        raise InvalidArgumentError(f"{name} {problem}")


def _problem(url: object) -> str:
    if not isinstance(url, str):
        return "must be text"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not parts.hostname or port == 0:
        return "names no host"
    if "@" in parts.netloc:
        return "must hold neither user nor password"
    if "#" in url:
        return "must have no fragment"
    if not url.isprintable() or " " in url or "\\" in url:
        return "holds a character that no address has"
    return ""


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port, which together say who is asked."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Whether the host is this machine."""
    host = urlsplit(url).hostname or ""
    return (
        host in ("localhost", "::1") or host.endswith(".localhost") or re.fullmatch(r"127(\.\d+){3}", host) is not None
    )


def prefix(given: str) -> str:
    """A server's or caller's prefix for a path. Raises InvalidResponseError when it climbs out of its place."""
    cleaned = quote(_LONE_PERCENT.sub("%25", given.strip("/")), safe=_PATH_SAFE)
    if any(unquote(segment) in (".", "..") for segment in cleaned.split("/")):
        raise InvalidResponseError("the prefix holds '.' or '..' as a segment")
    return cleaned


def is_plain_segment(text: str) -> bool:
    """Whether `text` could be one segment of a path as it is."""
    return _PLAIN_SEGMENT.fullmatch(text) is not None and text not in (".", "..")


def is_sendable_path(text: str) -> bool:
    """Whether `text` is a path as RFC 3986 has it, percent-encoded and without segments that climb."""
    climbs = any(unquote(segment) in (".", "..") for segment in text.split("/"))
    return not climbs and _PATH.fullmatch(text) is not None


def path(template: str, values: Mapping[str, PathValue], *, prefix: str, separator: Separator) -> str:
    """The path of an operation: `template` with its placeholders filled in, each value encoded as its place demands."""

    def fill(match: re.Match[str]) -> str:
        value = values[match[1]]
        return quote(value, safe="") if isinstance(value, str) else separator.in_path(value)

    return _PLACEHOLDER.sub(fill, template.replace("/{prefix}", f"/{prefix}" if prefix else ""))


def query(parameters: Iterable[tuple[str, QueryValue]], *, separator: Separator) -> str:
    """`?name=value&...`, or nothing when there are no parameters."""
    pairs = [f"{quote(name, safe='')}={_query_value(value, separator)}" for name, value in parameters]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _query_value(value: QueryValue, separator: Separator) -> str:
    if isinstance(value, References):
        each = (separator.in_query((*view.namespace, view.name)) for view in value.views)
        return ",".join(quote(text, safe="") for text in each)
    if isinstance(value, Levels):
        return quote(separator.in_query(value.levels), safe="")
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")

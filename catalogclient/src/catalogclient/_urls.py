"""Builds request URLs: validates the base URL, cleans the prefix and percent-encodes names.

The URLs must be sent unchanged: a client that normalises `%2E` to a dot addresses another namespace.
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
# Characters that RFC 3986 §3.3 allows in a path. Percent signs in front of two hex digits stay as they are.
_PATH_SAFE = "/%-._~!$&'()*+,;=:@"
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

_PATH = re.compile(r"(?:[A-Za-z0-9/._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")

PathValue: TypeAlias = str | tuple[str, ...]
"""A path segment, or the levels of a namespace."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of a namespace as the value of a query parameter."""

    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    """Views through which a table is read, outermost first, as the value of a query parameter."""

    views: tuple[TableIdentifier, ...]


QueryValue: TypeAlias = str | int | bool | Levels | References


@dataclass(frozen=True, slots=True)
class Separator:
    """Separator between the levels of a namespace."""

    encoded: str
    """Percent-encoded form, used in paths."""

    @classmethod
    def parse(cls, text: str) -> Separator:
        """Parse a separator from a server or caller, percent-encoded or not. `text` must not be empty."""
        encoded = text if unquote(text) != text else quote(text, safe="")
        # quote() does not encode unreserved characters (RFC 3986 §2.3), which would be part of a level.
        return cls(encoded if "%" in encoded else "".join(f"%{octet:02X}" for octet in encoded.encode()))

    @property
    def plain(self) -> str:
        return unquote(self.encoded)

    def in_path(self, levels: Sequence[str]) -> str:
        return self.encoded.join(quote(level, safe="") for level in levels)

    def in_query(self, levels: Sequence[str]) -> str:
        """Join the levels without encoding them.

        Servers decode a query value before they split it. If they would split these levels elsewhere, U+001F joins
        them, which all servers accept.
        """
        joined = self.plain.join(levels)
        is_ambiguous = joined.split(self.plain) != list(levels)
        return UNIT_SEPARATOR.plain.join(levels) if is_ambiguous else joined


UNIT_SEPARATOR = Separator("%1F")
"""Default separator."""


def root(base_url: str) -> str:
    """Return `base_url` without trailing slashes and with a percent-encoded path.

    Raises InvalidArgumentError unless it is an http or https URL without user, query and fragment.
    """
    check(base_url, name="base_url")
    if "?" in base_url:
        raise InvalidArgumentError("base_url must not have a query")
    parts = urlsplit(base_url.rstrip("/"))
    return f"{parts.scheme}://{parts.netloc}{quote(parts.path, safe=_PATH_SAFE)}"


def check(url: object, *, name: str) -> None:
    """Raise InvalidArgumentError unless `url` is an http or https URL without user and fragment."""
    problem = _problem(url)
    if problem:
        # The message does not contain the URL, which may contain a password.
        raise InvalidArgumentError(f"{name} {problem}")


def _problem(url: object) -> str:
    if not isinstance(url, str):
        return "must be a string"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not parts.hostname or port == 0:
        return "has no host"
    if "@" in parts.netloc:
        return "must not contain a user or password"
    if "#" in url:
        return "must not have a fragment"
    if not url.isprintable() or " " in url or "\\" in url:
        return "contains a character that is not allowed in a URL"
    return ""


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Return True if the host of `url` is this machine."""
    host = urlsplit(url).hostname or ""
    return (
        host in ("localhost", "::1") or host.endswith(".localhost") or re.fullmatch(r"127(\.\d+){3}", host) is not None
    )


def prefix(text: str) -> str:
    """Percent-encode a prefix from a server or caller. Raises InvalidResponseError for segments `.` and `..`."""
    cleaned = quote(_LONE_PERCENT.sub("%25", text.strip("/")), safe=_PATH_SAFE)
    if _has_dot_segment(cleaned):
        raise InvalidResponseError("the prefix contains '.' or '..' as a segment")
    return cleaned


def is_sendable_path(text: str) -> bool:
    """Return True if `text` is a percent-encoded path (RFC 3986 §3.3) without segments `.` and `..`."""
    return not _has_dot_segment(text) and _PATH.fullmatch(text) is not None


def _has_dot_segment(path: str) -> bool:
    return any(unquote(segment) in (".", "..") for segment in path.split("/"))


def path(template: str, values: Mapping[str, PathValue], *, prefix: str, separator: Separator) -> str:
    """Fill the placeholders of `template` with encoded values and return the path."""

    def fill(match: re.Match[str]) -> str:
        value = values[match[1]]
        return quote(value, safe="") if isinstance(value, str) else separator.in_path(value)

    return _PLACEHOLDER.sub(fill, template.replace("/{prefix}", f"/{prefix}" if prefix else ""))


def query(parameters: Iterable[tuple[str, QueryValue]], *, separator: Separator) -> str:
    """Return `?name=value&...`, or an empty string without parameters."""
    pairs = [f"{quote(name, safe='')}={_query_value(value, separator)}" for name, value in parameters]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _query_value(value: QueryValue, separator: Separator) -> str:
    if isinstance(value, References):
        names = (separator.in_query((*view.namespace, view.name)) for view in value.views)
        return ",".join(quote(name, safe="") for name in names)
    if isinstance(value, Levels):
        return quote(separator.in_query(value.levels), safe="")
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")

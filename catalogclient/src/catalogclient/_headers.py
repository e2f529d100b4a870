"""Validation and merging of request header fields."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from catalogclient._version import __version__
from catalogclient.errors import InvalidArgumentError

RESERVED = frozenset(
    "authorization proxy-authorization cookie host content-length content-type transfer-encoding connection "
    "idempotency-key if-none-match".split()
)
"""Names that callers and servers must not set."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 §5.5: no control characters except the tab, no blanks around the value.
_FORBIDDEN = re.compile(r"[\0-\x08\x0a-\x1f\x7f]|^[ \t]|[ \t]\Z")


def check(fields: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError if a name is reserved or invalid, or a value is invalid."""
    for name, value in fields.items():
        check_name(name)
        if name.lower() in RESERVED:
            raise InvalidArgumentError(f"the header field {name} cannot be set")
        check_value(value)


def check_name(name: object) -> None:
    """Raise InvalidArgumentError unless `name` is a field name (RFC 9110 §5.1)."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError("the name of a header field is invalid")


def check_value(value: object) -> None:
    """Raise InvalidArgumentError unless `value` is a Latin-1 string without control characters and outer blanks."""
    if not isinstance(value, str) or _FORBIDDEN.search(value):
        raise InvalidArgumentError(
            "the value of a header field must be a string without line breaks, control characters and outer blanks"
        )
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidArgumentError("the value of a header field must be Latin-1") from None


def is_acceptable(name: str, value: str) -> bool:
    """Return True if a field that the server's configuration requests may be sent."""
    try:
        check({name: value})
    except InvalidArgumentError:
        return False
    return True


def basic(*, user_agent: str | None, transport: str) -> dict[str, str]:
    """Return the fields that every request carries. `transport` is the name and version of the HTTP library."""
    python = f"python/{sys.version_info.major}.{sys.version_info.minor}"
    own = f"catalogclient/{__version__} {python} {transport}"
    return {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": f"{user_agent} {own}" if user_agent else own,
        "X-Client-Version": f"catalogclient {__version__}",
    }


def merge(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge mappings. Later mappings replace fields of earlier ones. Names are compared without case."""
    fields: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for name, value in layer.items():
            fields[name.lower()] = name, value
    return dict(fields.values())

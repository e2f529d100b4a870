"""Header fields of requests: who may set which, and which values are none."""

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
"""Set by the library alone, or by nobody."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN = re.compile(r"[\r\n\0]")


def check(fields: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError for a name that is reserved or none, and for a value that would end the field."""
    for name, value in fields.items():
        check_name(name)
        if name.lower() in RESERVED:
            raise InvalidArgumentError(f"the header field {name} cannot be set")
        check_value(value)


def check_name(name: object) -> None:
    """Raises InvalidArgumentError for what is no name of a field (RFC 9110 §5.1)."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError("a header field has a name that is none")


def check_value(value: object) -> None:
    """Raises InvalidArgumentError for a value that would end its field or cannot be encoded."""
    if not isinstance(value, str) or _FORBIDDEN.search(value):
        raise InvalidArgumentError("the value of a header field must be text on one line")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidArgumentError("the value of a header field must be Latin-1") from None


def is_acceptable(name: str, value: str) -> bool:
    """Whether a field that the server wants sent may be."""
    try:
        check({name: value})
    except InvalidArgumentError:
        return False
    return True


def basic(*, user_agent: str | None, transport: str) -> dict[str, str]:
    """What every request carries. `transport` names what sends it, with its version."""
    python = f"python/{sys.version_info.major}.{sys.version_info.minor}"
    own = f"catalogclient/{__version__} {python} {transport}"
    return {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": f"{user_agent} {own}" if user_agent else own,
        "X-Client-Version": f"catalogclient {__version__}",
    }


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """One mapping of all layers; a later one replaces fields of the earlier, whatever their case."""
    found: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for name, value in layer.items():
            found[name.lower()] = name, value
    return dict(found.values())

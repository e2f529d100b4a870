"""Resource indicators (RFC 8707): the APIs for which a client requests access tokens.

Several resources of a request are one text, separated by spaces, which no URI contains.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

MAX_LENGTH = 2048
"""Longest text of the resources of a request or of a client."""


def join(values: Iterable[str]) -> str:
    """The text of repeated parameters; empty ones are left out."""
    return " ".join(value for value in values if value)


def parse(text: str | None) -> list[str]:
    """The resources of a text, each once."""
    return list(dict.fromkeys((text or "").split()))


def covers(granted: str | None, requested: str) -> bool:
    """True if every requested resource was granted (RFC 8707 §2.2)."""
    return set(parse(requested)) <= set(parse(granted))


def find_refusal(resource: str) -> str:
    """The reason why a text is no resource (RFC 8707 §2); empty if it is one, or empty itself."""
    if not resource:
        return ""
    try:
        parts = urlsplit(resource)
    except ValueError:
        return "resource must be a valid URI"
    if not parts.scheme:
        return "resource must be an absolute URI"
    if "#" in resource:
        return "resource must not include a fragment component"
    if "?" in resource:
        return "resource must not include a query component"
    return ""

"""Resource indicators (RFC 8707): the APIs for which a client requests access tokens.

Several resources of a request are one text, separated by spaces, which no URI contains.
"""

from __future__ import annotations

from collections.abc import Iterable


def join(values: Iterable[str]) -> str:
    """The text of repeated parameters; empty ones are left out."""
    return " ".join(value for value in values if value)


def parse(text: str | None) -> list[str]:
    """The resources of a text, each once."""
    return list(dict.fromkeys((text or "").split()))


def covers(granted: str | None, requested: str) -> bool:
    """True if every requested resource was granted (RFC 8707 §2.2)."""
    return set(parse(requested)) <= set(parse(granted))

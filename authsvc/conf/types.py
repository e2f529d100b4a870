"""Values that settings have besides the types of Python."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network

Network = IPv4Network | IPv6Network


class Secret:
    """A text that `repr`, log lines and tracebacks do not show; only `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret('')"

    __str__ = __repr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A limit of messages: `events` per hour in a fixed window, or a bucket of `events` that gains one each `over`."""

    events: int
    over: timedelta | None = None

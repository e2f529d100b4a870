"""Requests and answers as values, between the rules that make and read them and whatever carries them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from catalogclient._endpoints import Operation
from catalogclient._urls import PathValue, QueryValue

T = TypeVar("T")


class Unset(Enum):
    """The type of UNSET."""

    UNSET = "use the option"


UNSET: Final = Unset.UNSET
"""Says that an argument was not given where None means something."""


class Headers(Mapping[str, str]):
    """Header fields, looked up in any case; their values are never shown."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, str] | None = None) -> None:
        self._fields = {name.lower(): value for name, value in (fields or {}).items()}

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({sorted(self._fields)})"


class PreparedRequest:
    """One request as it will be sent. An AuthManager may change `headers`, and nothing else."""

    __slots__ = ("body", "headers", "method", "url")
    method: str
    url: str
    headers: MutableMapping[str, str]
    body: bytes | None

    def __init__(self, method: str, url: str, headers: MutableMapping[str, str], body: bytes | None) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"PreparedRequest({self.method})"


class Reply:
    """One answer, its body not yet read as anything."""

    __slots__ = ("_body", "headers", "status")
    status: int
    headers: Mapping[str, str]

    def __init__(self, status: int, headers: Mapping[str, str], body: io.BytesIO) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    @property
    def content(self) -> bytes:
        return self._body.getvalue()

    def start(self, size: int) -> bytes:
        """The first bytes of the body."""
        return bytes(self._body.getbuffer()[:size])

    def document(self) -> Any:
        """The body as JSON, once: its bytes are given up on the way, so that they and what they say need not both fit.

        Raises ValueError when it is no JSON in UTF-8, RecursionError when it is nested too deeply.
        """
        body, self._body = self._body, io.BytesIO()
        text = str(body.getbuffer(), "utf-8-sig")
        del body
        return json.loads(text)

    def __repr__(self) -> str:
        return f"Reply({self.status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One operation on given things: everything of the request but where it goes, and how its answer is read."""

    operation: Operation
    read: Callable[[Reply], T]
    values: Mapping[str, PathValue] = field(default_factory=dict)
    """What goes into the placeholders of the path."""
    query: tuple[tuple[str, QueryValue], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the operation itself sends, beyond what every request does."""
    access_delegation: Sequence[str] | Unset | None = UNSET
    """Instead of that of the options."""


class RawResponse:
    """An answer of the server as it is.

    `headers` are looked up in any case; `content` is the body without its Content-Encoding.
    """

    __slots__ = ("content", "headers", "status")
    status: int
    headers: Mapping[str, str]
    content: bytes

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status = status
        self.headers = headers
        self.content = content

    @property
    def text(self) -> str:
        """The body as UTF-8; what is none of it is replaced."""
        return self.content.decode("utf-8-sig", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError when it is none."""
        return json.loads(self.content.decode("utf-8-sig"))

    def __repr__(self) -> str:
        return f"RawResponse({self.status}, {len(self.content)} bytes)"

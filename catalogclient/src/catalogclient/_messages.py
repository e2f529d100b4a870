"""Requests and responses as values, independent of the HTTP library."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from catalogclient._endpoints import Operation
from catalogclient._urls import PathValue, QueryValue
from catalogclient.errors import InvalidArgumentError

T = TypeVar("T")


def encode_json(document: Any) -> bytes:
    """Encode `document` as compact JSON in UTF-8. Raises InvalidArgumentError if JSON cannot express it (NaN)."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the request cannot be encoded as JSON: {type(error).__name__}") from error


class Unset(Enum):
    """The type of UNSET."""

    UNSET = "use the option"


UNSET: Final = Unset.UNSET
"""Marks an argument that was not given, where None has a meaning of its own."""


class PreparedRequest:
    """A request that is ready to be sent. An AuthManager may change `headers` only."""

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


class HttpResponse:
    """A response whose body is not parsed yet. RawResponse is its public form."""

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
        """Return the first `size` bytes of the body."""
        return bytes(self._body.getbuffer()[:size])

    def document(self) -> Any:
        """Parse the body as JSON. It can be called once, because the bytes are released to limit peak memory.

        Raises ValueError if the body is not JSON in UTF-8, and RecursionError if it is nested too deeply.
        """
        body, self._body = self._body, io.BytesIO()
        text = str(body.getbuffer(), "utf-8-sig")
        del body
        return json.loads(text)

    def __repr__(self) -> str:
        return f"HttpResponse({self.status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """An operation with its arguments: the content of the request and the function that parses the response."""

    operation: Operation
    read: Callable[[HttpResponse], T]
    """Parses a successful response. Raises InvalidResponseError."""
    values: Mapping[str, PathValue] = field(default_factory=dict)
    """Values of the placeholders of the path."""
    query: tuple[tuple[str, QueryValue], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Header fields of this operation."""
    access_delegation: Sequence[str] | Unset | None = UNSET
    """Replaces `access_delegation` of the options."""
    wants_default_snapshots: bool = False
    """True to add the parameter `snapshots` with the default of the configuration, if there is one."""


class RawResponse:
    """An unparsed response. Names in `headers` are case-insensitive. `content` is the decompressed body."""

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
        """The body decoded as UTF-8. Invalid bytes are replaced."""
        return self.content.decode("utf-8-sig", "replace")

    def json(self) -> Any:
        """Parse the body as JSON. Raises ValueError if it is not JSON."""
        return json.loads(self.content.decode("utf-8-sig"))

    def __repr__(self) -> str:
        return f"RawResponse({self.status}, {len(self.content)} bytes)"

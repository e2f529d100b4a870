"""Bodies and query strings become typed, frozen values here or are refused."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec
import orjson
from django.http import HttpRequest

from authsvc.errors import BadJson, BodyTooLarge

MAX_BODY = 1_048_576
_READ = "authsvc.body"

Input = TypeVar("Input", bound=msgspec.Struct)


class Body(msgspec.Struct, frozen=True):
    """The base of bodies with secrets in them: shown are the names of what was given, not the values.

    Whether something that is needed is missing is found out where it is needed, so every field may be absent; `needs`
    declares those without which the body is always refused.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        return f"{type(self).__name__}({', '.join(given)})"


def read_body(request: HttpRequest) -> bytes:
    """The raw body, at most 1 MiB, as often as it is asked for.

    Raises BodyTooLarge without reading what is declared to be longer.
    """
    known: bytes | None = request.META.get(_READ)
    if known is not None:
        return known
    stream: Any = request
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        stream = request.META["wsgi.input"]  # Django reads a body without Content-Length as empty
    else:
        declared = request.META.get("CONTENT_LENGTH") or "0"
        if declared.isdecimal() and (len(declared) > len(str(MAX_BODY)) or int(declared) > MAX_BODY):
            raise BodyTooLarge
    read: bytes = stream.read(MAX_BODY + 1)
    if len(read) > MAX_BODY:
        raise BodyTooLarge
    request.META[_READ] = read
    return read


def parse_body(request: HttpRequest, shape: type[Input]) -> Input:
    """The JSON body as `shape`. Content-Type is not looked at; `null` stands for `{}`; unknown keys are ignored.

    Raises BadJson for anything that is not a JSON object of that shape, and for what could not be kept: text that
    PostgreSQL refuses (NUL, lone surrogates, invalid UTF-8), numbers no double can hold, nesting beyond 1024 levels.
    """
    raw = read_body(request)
    try:
        # What comes in as metadata is read back by this reader, from rows and out of tokens.
        plain = orjson.loads(raw)
        if plain is None:
            raw = b"{}"
        value = msgspec.json.decode(raw, type=shape)
        if b"\\u0000" in raw:
            _refuse_nul(plain)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadJson(str(error)) from None
    return value


def _refuse_nul(value: object) -> None:
    """A `\\u0000` in the text is only a NUL when the backslash is not itself escaped, so look at what it became."""
    if isinstance(value, str):
        if "\0" in value:
            raise BadJson("a string holds U+0000")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _refuse_nul(key)
            _refuse_nul(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_nul(inner)


def query_parameter(request: HttpRequest, name: str) -> str:
    """The first occurrence of a query parameter, `""` when absent."""
    values = request.GET.getlist(name)
    return values[0] if values else ""

"""Reads request bodies and query parameters as typed, frozen values."""

from __future__ import annotations

from functools import cache
from typing import IO, Any, ClassVar, TypeVar, cast

import msgspec
import orjson
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.utils.http import parse_header_parameters
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from authsvc.errors import BadJson, BodyTooLarge

MAX_BODY = 1_048_576
"""Longest permitted request body in bytes."""
REQUEST_ERROR = "authsvc.request_error"
"""Key of the WSGI environment: the error because of which the server passes a request on without executing it."""
MAX_DEPTH = 32
"""Maximum nesting of the objects and lists of a JSON body, which is level 1 itself."""
MAX_KEYS = 10_000
"""Maximum number of keys in all objects of a JSON body."""

MAX_BRACKETS = 50_000
"""Maximum number of objects and lists of a JSON body; opening brackets in texts count as well."""
_MAX_CONTENT_TYPE = 1_024
"""Characters of a Content-Type that are read; Django takes 1.6 ms for the parameters in each further 1,000."""

Input = TypeVar("Input", bound=msgspec.Struct)


class Body(msgspec.Struct, frozen=True):
    """Base class of request bodies. Its `repr` shows the names of the members that are set, never their values.

    Every member is optional, because services report missing members with their own errors. `needs` names the members
    without which the request always fails, and `example` those of the example, both for the API description.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        names = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        return f"{type(self).__name__}({', '.join(names)})"


class Utf8Request(WSGIRequest):
    """A request in UTF-8. Django would decode even the query by the charset of the content type, any codec of Python.

    Some of those codecs fail for every text, and others produce surrogates.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type, self.content_params = parse_header_parameters(
            meta.get("CONTENT_TYPE", "")[:_MAX_CONTENT_TYPE]
        )


class StrictJSONParser(BaseParser):
    """Parses `request.data` as a JSON object, for every Content-Type; `null` means `{}`.

    Raises BadJson for invalid JSON, for other JSON values, for text that PostgreSQL cannot store (NUL, lone surrogates,
    invalid UTF-8), for deeper nesting than MAX_DEPTH, for more keys than MAX_KEYS and for more brackets than
    MAX_BRACKETS.
    """

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        raw = stream.read()
        brackets = raw.count(b"{") + raw.count(b"[")
        if brackets > MAX_BRACKETS:
            raise BadJson(f"more than {MAX_BRACKETS} objects and lists")
        try:
            # Metadata is read with orjson from rows and tokens too, so orjson has to accept it here.
            document: Any = orjson.loads(raw)
            if document is None:
                return {}
            if not isinstance(document, dict):
                msgspec.convert(document, type=dict)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise BadJson(str(error)) from None
        # The marks in the text are an upper bound, so that ordinary bodies are not walked through.
        if brackets > MAX_DEPTH or raw.count(b":") > MAX_KEYS:
            _check_structure(document)
        if b"\\u0000" in raw:
            _reject_nul(document)
        return cast("dict[str, Any]", document)


def read_body(request: HttpRequest) -> bytes:
    """The raw body, at most 1 MiB. It can be read repeatedly.

    Raises BodyTooLarge, without reading a body whose declared length is too large.
    """
    if hasattr(request, "_body"):
        return request.body
    stream: Any = request
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        stream = request.META["wsgi.input"]  # Django reads a body without Content-Length as empty
    else:
        declared = request.META.get("CONTENT_LENGTH") or "0"
        if declared.isdecimal() and (len(declared) > len(str(MAX_BODY)) or int(declared) > MAX_BODY):
            raise BodyTooLarge
    body: bytes = stream.read(MAX_BODY + 1)
    if len(body) > MAX_BODY:
        raise BodyTooLarge
    # The parsers of DRF and Django read `request.body`, which returns `_body`.
    request._body = body
    return body


def parse_body(request: Request, body_type: type[Input]) -> Input:
    """The JSON body as `body_type`; unknown members are ignored.

    Raises BodyTooLarge, and BadJson where StrictJSONParser does, for members of another type, and for numbers beyond a
    double.
    """
    if not request.data:
        return _decode(b"{}", body_type)
    return _decode(request.body, body_type)


def query_parameter(request: HttpRequest, name: str) -> str:
    """The first occurrence of a query parameter, `""` without one."""
    values = request.GET.getlist(name)
    return values[0] if values else ""


def _decode(raw: bytes, body_type: type[Input]) -> Input:
    try:
        decoded: Input = _decoder(body_type).decode(raw)
        return decoded
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadJson(str(error)) from None


@cache
def _decoder(body_type: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    # msgspec itself parses a number such as 9e307 in 40 µs, so that a body of them would take seconds.
    return msgspec.json.Decoder(body_type, float_hook=float)


def _check_structure(document: object) -> None:
    """Raise BadJson for a document with too many levels or keys. Uses no recursion."""
    level, keys = [document], 0
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                keys += len(value)
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if keys > MAX_KEYS:
            raise BadJson(f"more than {MAX_KEYS} keys")
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return
    raise BadJson(f"more than {MAX_DEPTH} levels of nesting")


def _reject_nul(value: object) -> None:
    """Raise BadJson for U+0000 in parsed text; in raw text, `u0000` may follow an escaped backslash."""
    if isinstance(value, str):
        if "\0" in value:
            raise BadJson("a string holds U+0000")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _reject_nul(key)
            _reject_nul(inner)
    elif isinstance(value, list):
        for inner in value:
            _reject_nul(inner)

"""Reads the parameters of a client's request: a form (RFC 6749 §3.2), or a JSON object with the same members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
from django.http import HttpRequest

from authsvc.api import parsing
from authsvc.api.parsing import Body
from oauthserver import resources
from oauthserver.errors import TokenRequestInvalid

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_MAX_PAIRS = 100
_REPEATABLE = "resource"
"""RFC 8707 §2."""


class ClientForm(Body, frozen=True):
    """The members with which a client authenticates, in every request of a client."""

    client_id: str | None = None
    """Without HTTP Basic authentication."""
    client_secret: str | None = None
    client_assertion_type: str | None = None
    """`urn:ietf:params:oauth:client-assertion-type:jwt-bearer`, with `client_assertion`."""
    client_assertion: str | None = None
    """A JWT that the client has signed (`private_key_jwt`, RFC 7523)."""


class BodyUnreadable(Exception):
    """The body should be JSON, and is not an object whose members are texts."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """The parameters of a client's request; an absent one is empty."""

    _parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    _repeated: frozenset[str] = frozenset()

    def get(self, name: str) -> str:
        return self._parameters.get(name) or ""

    def refuse_repetition(self) -> None:
        """Raises TokenRequestInvalid for a parameter that is included more than once (RFC 6749 §3.2)."""
        if self._repeated:
            raise TokenRequestInvalid("a parameter is included more than once")


def parse(request: HttpRequest, form: type[Body]) -> ClientRequest:
    """The parameters in the body; the first of several with the same name counts.

    Pairs of a form that cannot be decoded, and bodies of other types, are left out. `form` lists the members of a JSON
    object. Raises BodyUnreadable.
    """
    if _JSON in request.META.get("CONTENT_TYPE", "").lower():
        return ClientRequest(_parse_json(parsing.read_body(request), form))
    return parse_form(request)


def _parse_json(raw: bytes, form: type[Body]) -> dict[str, str]:
    try:
        content: Any = orjson.loads(raw) if raw else {}
        members = msgspec.convert({} if content is None else content, form)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BodyUnreadable from None
    return {name: value for name in members.__struct_fields__ if (value := getattr(members, name))}


def parse_form(request: HttpRequest) -> ClientRequest:
    """The parameters of a form; none of a body of another type."""
    if request.META.get("CONTENT_TYPE", "").lower().partition(";")[0].strip() != _FORM:
        return ClientRequest()
    raw = parsing.read_body(request)
    parameters: dict[str, str] = {}
    repeated = set()
    for pair in raw.split(b"&", maxsplit=_MAX_PAIRS)[:_MAX_PAIRS]:
        encoded_name, _, encoded_value = pair.partition(b"=")
        try:
            name, value = _decode(encoded_name), _decode(encoded_value)
        except UnicodeDecodeError:
            continue
        if name == _REPEATABLE:
            value = resources.join((parameters.pop(name, ""), value))
        elif name in parameters:
            repeated.add(name)
        parameters.setdefault(name, value)
    return ClientRequest(parameters, frozenset(repeated))


def _decode(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode()

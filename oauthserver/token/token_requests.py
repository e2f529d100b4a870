"""Reads the body of a token request: a form (RFC 6749 §4.1.3) or a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
from django.http import HttpRequest

from authsvc.api import parsing
from authsvc.api.parsing import Body

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_MAX_PAIRS = 100


class TokenForm(Body, frozen=True):
    """The members of a token request."""

    needs: ClassVar[tuple[str, ...]] = ("grant_type",)
    example: ClassVar[tuple[str, ...]] = ("grant_type", "code", "redirect_uri", "code_verifier")
    grant_type: str | None = None
    """`authorization_code`, `refresh_token` or `urn:ietf:params:oauth:grant-type:device_code`."""
    code: str | None = None
    redirect_uri: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
    device_code: str | None = None
    resource: str | None = None
    """The same as in the authorization request (RFC 8707)."""
    client_id: str | None = None
    """Without HTTP Basic authentication."""
    client_secret: str | None = None


class BodyUnreadable(Exception):
    """The body should be JSON, and is not an object whose members are texts."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The parameters of a token request; an absent one is empty."""

    _parameters: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str:
        return self._parameters.get(name) or ""


def parse(request: HttpRequest, *, form: type[Body] = TokenForm) -> TokenRequest:
    """The parameters in the body; the first of several with the same name counts.

    `form` has the members of a JSON body. Pairs that cannot be decoded, and bodies of other types, are left out.
    Raises BodyUnreadable.
    """
    content_type = request.META.get("CONTENT_TYPE", "").lower()
    if _JSON in content_type:
        return TokenRequest(_parse_json(parsing.read_body(request), form))
    if content_type.partition(";")[0].strip() == _FORM:
        return TokenRequest(_parse_form(parsing.read_body(request)))
    return TokenRequest({})


def _parse_json(raw: bytes, form: type[Body]) -> dict[str, str]:
    try:
        content: Any = orjson.loads(raw) if raw else {}
        members = msgspec.convert({} if content is None else content, form)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BodyUnreadable from None
    return {name: value for name in members.__struct_fields__ if (value := getattr(members, name))}


def _parse_form(raw: bytes) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for pair in raw.split(b"&", maxsplit=_MAX_PAIRS)[:_MAX_PAIRS]:
        name, _, value = pair.partition(b"=")
        try:
            parameters.setdefault(_decode(name), _decode(value))
        except UnicodeDecodeError:
            continue
    return parameters


def _decode(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode()

"""Reads the body of a token request: a form (RFC 6749 §4.1.3) or a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import orjson
from django.http import HttpRequest

from authsvc.api import parsing
from authsvc.api.parsing import Body

_JSON = "application/json"


class TokenForm(Body, frozen=True):
    """The members of a token request."""

    needs: ClassVar[tuple[str, ...]] = ("grant_type",)
    example: ClassVar[tuple[str, ...]] = ("grant_type", "code", "redirect_uri", "code_verifier")
    grant_type: str | None = None
    """`authorization_code` or `refresh_token`."""
    code: str | None = None
    redirect_uri: str | None = None
    code_verifier: str | None = None
    refresh_token: str | None = None
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


def parse(request: HttpRequest) -> TokenRequest:
    """The parameters in the body; the first of several with the same name counts.

    Pairs of a form that cannot be decoded, and bodies of other types, are left out. Raises BodyUnreadable.
    """
    if _JSON in request.META.get("CONTENT_TYPE", "").lower():
        return TokenRequest(_parse_json(parsing.read_body(request)))
    return TokenRequest(parsing.parse_form(request))


def _parse_json(raw: bytes) -> dict[str, str]:
    try:
        content: Any = orjson.loads(raw) if raw else {}
        form = msgspec.convert({} if content is None else content, TokenForm)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BodyUnreadable from None
    return {name: value for name in form.__struct_fields__ if (value := getattr(form, name))}

"""Renders JSON with orjson, formats times, and builds the redirects that DRF's `Response` does not cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson
from django.http import HttpResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

NO_STORE = "no-store"


class JSONRenderer(BaseRenderer):
    """Renders data that may contain `orjson.Fragment`s (text that is JSON already) and times of `json_time`."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else orjson.dumps(data, option=orjson.OPT_UTC_Z)


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC with six fractional digits and `Z`; `moment` is in UTC."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def json_time(moment: datetime) -> datetime | str:
    """A value that `JSONRenderer` writes in the format of `rfc3339`, at lower cost; `moment` is in UTC."""
    # orjson omits a fraction of zero.
    return moment if moment.microsecond else rfc3339(moment)


class FixedNegotiation(BaseContentNegotiation):
    """Chooses the first parser and renderer of the view. Clients send JSON under any Content-Type and Accept header."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return next(iter(parsers), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class SeeOther(HttpResponse):
    """A 303 redirect to a validated ASCII URL of any scheme; Django's redirects refuse schemes of mobile apps."""

    status_code = 303

    def __init__(self, target: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={"Location": target, "Cache-Control": NO_STORE, **(headers or {})})
        del self["Content-Type"]


class Found(SeeOther):
    """The same with status 302."""

    status_code = 302

"""Answers: JSON by orjson, and redirects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpResponse

NO_STORE = "no-store"


class Answer(HttpResponse):
    """A JSON answer. `payload` may hold `orjson.Fragment`s, text that is JSON already, and times by `clock.json`."""

    def __init__(self, payload: Any, *, status: int = 200, cache: str = NO_STORE) -> None:
        super().__init__(orjson.dumps(payload, option=orjson.OPT_UTC_Z), status=status, content_type="application/json")
        self["Cache-Control"] = cache


class NoContent(HttpResponse):
    def __init__(self) -> None:
        super().__init__(status=204)
        self["Cache-Control"] = NO_STORE
        del self["Content-Type"]


class SeeOther(HttpResponse):
    """303 to a target that was checked and made ASCII before."""

    status_code = 303

    def __init__(self, target: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={"Location": target, "Cache-Control": NO_STORE, **(headers or {})})
        del self["Content-Type"]


class Found(SeeOther):
    """The same with 302."""

    status_code = 302

"""Model fields that read every value that PostgreSQL can store, so that one row cannot break a page with many."""

from __future__ import annotations

from typing import Any

import orjson
from django.db import models

_MAX_DEPTH = 100
"""Deeper values are shown as text; the encoders and `str` fail at about 250 levels."""


def parse_json(text: str) -> Any:
    """The value of a JSON text, or the text itself if it cannot be parsed or is nested too deeply for the encoders.

    Integers beyond 64 bits become floats.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return text if _is_deep(document) else document


class JSONField(models.JSONField):
    """Reads JSON of any nesting and with numbers of any size, as `parse_json` does."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if not isinstance(value, str):
            return super().from_db_value(value, expression, connection)
        return parse_json(value)

    def deconstruct(self) -> Any:
        """As Django's own field, which migrations name."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs


def _is_deep(document: object) -> bool:
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [inner for value in level for inner in _members(value) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _members(value: object) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

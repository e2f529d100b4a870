"""Changes of JSON columns that the database makes, so that no concurrent change of other keys is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import F, Func, JSONField, Value


def merged(column: str, values: Mapping[str, Any]) -> Func:
    """The column with these top-level keys replaced; NULL counts as an empty object."""
    return Func(
        F(column),
        Value(dict(values), JSONField()),
        template="(coalesce(%(expressions)s))",
        arg_joiner=", '{}'::jsonb) || (",
        output_field=JSONField(),
    )

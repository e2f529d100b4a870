"""Updates of JSON columns by key in the database, so that concurrent updates of other keys are not lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import F, Func, JSONField, TextField, Value
from django.db.models.functions import Cast


def merged(column: str, values: Mapping[str, Any]) -> Func:
    """The column with these top-level keys replaced, or deleted where the value is None. NULL counts as `{}`."""
    kept = {key: value for key, value in values.items() if value is not None}
    dropped = [key for key in values if key not in kept]
    present = Func(F(column), template="coalesce(%(expressions)s, '{}'::jsonb)")
    result = _between(present, "||", Value(kept, JSONField()))
    return _between(result, "-", Cast(Value(dropped), ArrayField(TextField()))) if dropped else result


def _between(left: Func, operator: str, right: Func | Value) -> Func:
    return Func(left, right, template="(%(expressions)s)", arg_joiner=f" {operator} ", output_field=JSONField())

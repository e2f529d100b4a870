"""Results of an action on several rows: counted over all batches, and reported as one message."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.messages import constants as levels
from django.core import signing
from django.core.exceptions import SuspiciousOperation
from django.db.models import QuerySet

from authsvc.display_text import short_text

_SALT = "authsvc.console.bulk_results"
_MAX_AGE_SECONDS = 3600
_MAX_REFUSALS = 5
"""Different refusals in a message; it is stored in a cookie, which browsers limit to 4 KB."""
_MAX_NAMES = 3
_MAX_NAME_LENGTH = 40
_MAX_REFUSAL_LENGTH = 160
_OTHER = "other reasons"
_AGE_COLUMN = "created_at"


@dataclass(slots=True, kw_only=True)
class RefusedRows:
    count: int = 0
    names: list[str] = field(default_factory=list)
    """The first rows."""


@dataclass(slots=True, kw_only=True)
class BulkResults:
    """The results so far, in the order of the primary key."""

    total: int
    """Rows when the operator started the action."""
    until: str
    """ISO 8601 time of the start. Rows created later are left out."""
    after: str = ""
    """Primary key of the last row; empty before the first."""
    done: int = 0
    refusals: dict[str, RefusedRows] = field(default_factory=dict)

    @property
    def refused(self) -> int:
        return sum(rows.count for rows in self.refusals.values())

    @property
    def handled(self) -> int:
        return self.done + self.refused

    def add_refusal(self, reason: str, name: str) -> None:
        reason = reason.removesuffix(".")[:_MAX_REFUSAL_LENGTH]
        is_known = reason in self.refusals or len(self.refusals) < _MAX_REFUSALS
        entry = self.refusals.setdefault(reason if is_known else _OTHER, RefusedRows())
        entry.count += 1
        if len(entry.names) < _MAX_NAMES:
            entry.names.append(short_text(name)[:_MAX_NAME_LENGTH])

    def remaining(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows of the list that follow."""
        if self.after:
            queryset = queryset.filter(pk__gt=self.after)
        if any(column.name == _AGE_COLUMN for column in queryset.model._meta.concrete_fields):
            # Keeps rows without that time.
            queryset = queryset.exclude(**{f"{_AGE_COLUMN}__gt": datetime.fromisoformat(self.until)})
        return queryset.order_by("pk")

    def message(self, success_message: str, *, noun: str, plural: str) -> tuple[int, str]:
        """Level and text of the message: "Banned: 97 users. 3 refused: This is your own account (op@example.com)"."""
        parts = [f"{success_message}: {self.done:,} {noun if self.done == 1 else plural}"] if self.done else []
        if self.refusals:
            reasons = "; ".join(_describe(reason, rows) for reason, rows in self.refusals.items())
            parts.append(f"{self.refused:,} refused: {reasons}")
        level = levels.SUCCESS if not self.refusals else levels.WARNING if self.done else levels.ERROR
        return level, ". ".join(parts)

    def sign(self) -> str:
        """The results as text for a form."""
        return signing.dumps(asdict(self), salt=_SALT, compress=True)


def read(text: str) -> BulkResults:
    """The results that `sign` wrote. Raises SuspiciousOperation."""
    try:
        values = signing.loads(text, salt=_SALT, max_age=_MAX_AGE_SECONDS)
    except signing.BadSignature:
        raise SuspiciousOperation("The results of the former rows are invalid.") from None
    refusals = {reason: RefusedRows(**rows) for reason, rows in values.pop("refusals").items()}
    return BulkResults(**values, refusals=refusals)


def _describe(reason: str, refusals: RefusedRows) -> str:
    others = refusals.count - len(refusals.names)
    names = ", ".join(refusals.names) + (f" and {others:,} more" if others else "")
    return f"{reason} ({names})"

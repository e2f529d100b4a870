"""List filters: choices that reject unknown values, and time ranges that bound long tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

MAX_LATEST_ROWS = 20_000
"""Rows of a long table that are read without a chosen day."""
_DAYS = 14


class ChoiceFilter(admin.SimpleListFilter):
    """A choice of `options`: pairs of parameter value and label."""

    options: ClassVar[Sequence[tuple[str, str]]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return self.options

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if value not in dict(self.lookup_choices):
            raise IncorrectLookupParameters
        return self.apply(queryset, value)

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): value})


class CreatedSinceFilter(ChoiceFilter):
    """Rows created within a number of days. The table needs an index on `created_at`."""

    title = "created"
    parameter_name = "created"
    options = (("1", "In the last 24 hours"), ("7", "In the last 7 days"), ("30", "In the last 30 days"))

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(created_at__gte=timezone.now() - timedelta(days=int(value)))


class DayFilter(admin.SimpleListFilter):
    """Rows of one day (UTC); the latest rows if no day is chosen. The URL parameter accepts any date."""

    title = "day"
    parameter_name = "day"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, str]]:
        today = timezone.now().astimezone(UTC).date()
        days = [today - timedelta(days=days_ago) for days_ago in range(_DAYS)]
        day = self._selected_day()
        if day and day not in days:
            days.append(day)
        for day in days:
            yield day.isoformat(), "Today" if day == today else f"{day:%A, %-d %B}" if day in days[:7] else str(day)

    def choices(self, changelist: Any) -> Iterator[Any]:
        default, *days = super().choices(changelist)
        yield {**default, "display": f"The latest {MAX_LATEST_ROWS:,}"}
        yield from days

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        day = self._selected_day()
        if day is None:
            is_bounded = SEARCH_VAR in request.GET or any(name.startswith("created_at__") for name in request.GET)
            return queryset if is_bounded else latest_rows(queryset)
        start = datetime.combine(day, datetime.min.time(), UTC)
        return queryset.filter(created_at__gte=start, created_at__lt=start + timedelta(days=1))

    def _selected_day(self) -> date | None:
        value = self.value()
        if value is None:
            return None
        try:
            day = date.fromisoformat(value)
        except ValueError:
            raise IncorrectLookupParameters from None
        if day == date.max:  # the next day is out of range
            raise IncorrectLookupParameters
        return day


def parse_id(text: str) -> UUID | None:
    """The ID that a search text consists of; None for another text."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def latest_rows(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """The rows of `queryset` among the latest MAX_LATEST_ROWS of the table, found by its index on `created_at`."""
    model: type[Model] = queryset.model
    by_age = model._default_manager.order_by("-created_at", "-id").values_list("created_at", flat=True)
    oldest = by_age[MAX_LATEST_ROWS : MAX_LATEST_ROWS + 1].first()
    return queryset if oldest is None else queryset.filter(created_at__gt=oldest)

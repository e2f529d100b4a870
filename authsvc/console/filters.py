"""Filters of the console's lists: a choice where nothing unknown ever means all, and time, which bounds long tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from authsvc import clock

LATEST = 20_000
"""So many rows of a long table are looked at where no day is chosen."""
_DAYS = 14


class Choice(admin.SimpleListFilter):
    """One of `options`: pairs of the parameter's value and what is shown for it."""

    options: ClassVar[Sequence[tuple[str, str]]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return self.options

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if value not in dict(self.lookup_choices):
            raise IncorrectLookupParameters
        return self.narrow(queryset, value)

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): value})


class Since(Choice):
    """Rows made within some days, for tables with an index on `created_at`."""

    title = "created"
    parameter_name = "created"
    options = (("1", "In the last 24 hours"), ("7", "In the last 7 days"), ("30", "In the last 30 days"))

    def narrow(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(created_at__gte=clock.now() - timedelta(days=int(value)))


class Day(admin.SimpleListFilter):
    """Rows of one day (UTC); where none is chosen, the latest ones only. Any day can be written into the address."""

    title = "day"
    parameter_name = "day"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, str]]:
        today = clock.now().astimezone(UTC).date()
        days = [today - timedelta(days=back) for back in range(_DAYS)]
        chosen = self._chosen()
        if chosen and chosen not in days:
            days.append(chosen)
        for day in days:
            yield day.isoformat(), "Today" if day == today else f"{day:%A, %-d %B}" if day in days[:7] else str(day)

    def choices(self, changelist: Any) -> Iterator[Any]:
        every, *days = super().choices(changelist)
        yield {**every, "display": f"The latest {LATEST:,}"}
        yield from days

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        day = self._chosen()
        if day is None:
            is_bounded = SEARCH_VAR in request.GET or any(name.startswith("created_at__") for name in request.GET)
            return queryset if is_bounded else latest(queryset)
        start = datetime.combine(day, datetime.min.time(), UTC)
        return queryset.filter(created_at__gte=start, created_at__lt=start + timedelta(days=1))

    def _chosen(self) -> date | None:
        value = self.value()
        if value is None:
            return None
        try:
            day = date.fromisoformat(value)
        except ValueError:
            raise IncorrectLookupParameters from None
        if day == date.max:  # which has no end
            raise IncorrectLookupParameters
        return day


def latest(queryset: QuerySet[Any]) -> QuerySet[Any]:
    """Without what is older than the latest LATEST rows of the whole table, which its index on `created_at` finds."""
    model: type[Model] = queryset.model
    by_age = model._default_manager.order_by("-created_at", "-id").values_list("created_at", flat=True)
    oldest = by_age[LATEST : LATEST + 1].first()
    return queryset if oldest is None else queryset.filter(created_at__gt=oldest)

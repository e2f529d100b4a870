"""The page of a list, its order and the number of its rows, at a bounded cost for tables of any size.

A list of up to `OperatorAdmin.max_sorted` rows is collected and sorted, by any column. A longer one is read in the
order of an index, and the number of its rows is the planner's estimate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.exceptions import EmptyResultSet
from django.core.paginator import Paginator
from django.db import DataError, connection
from django.db.models import QuerySet
from django.http import HttpRequest

from authsvc.console import personal_data
from authsvc.db.read_replica import within_timeout
from authsvc.errors import UnprocessableInput

if TYPE_CHECKING:
    from authsvc.console.model_admin import OperatorAdmin

Value = TypeVar("Value")

_TIMEOUT_MILLISECONDS = 3_000
"""For each statement of a list."""
_EXPORT_TIMEOUT_MILLISECONDS = 15_000
_SIGNIFICANT_DIGITS = 3


class ListTooSlow(UnprocessableInput):
    message = "This list takes too long. Narrow it by a filter or a search, or remove its order."


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """The rows of a page, and the number of all rows."""

    rows: list[Any]
    total: int
    is_estimated: bool = False
    is_in_order: bool = True
    """False if the list is too long for the requested order, and has the default order instead."""


class OperatorChangeList(ChangeList):
    """A list with its rows read. The `o` of its URL is the number of one column, after a `-` for descending order."""

    model_admin: OperatorAdmin
    result_list: Any

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        if ORDER_VAR in self.params:  # Django's links add the former columns
            self.params[ORDER_VAR] = self.params[ORDER_VAR].partition(".")[0]
            self.filter_params[ORDER_VAR] = [self.params[ORDER_VAR]]
        return super().get_queryset(request, exclude_parameters)

    def get_ordering_field(self, field_name: Any) -> Any:
        # Django accepts the number of any column that has a field.
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """The columns of the order; the primary key, which makes it definite, has the same direction."""
        default = list(self.model_admin.get_ordering(request) or ())
        column = next(iter(super().get_ordering(request, queryset)), None) if ORDER_VAR in self.params else None
        if not isinstance(column, str) or column.lstrip("-") == "pk":
            return default
        return [column, "-pk" if column.startswith("-") else "pk"]

    def get_results(self, request: HttpRequest) -> None:
        start = (self.page_num - 1) * self.list_per_page
        if not 0 <= start < self.model_admin.max_paged:
            raise IncorrectLookupParameters
        page = read_page(
            self.queryset,
            start=start,
            size=self.list_per_page,
            default_order=self.default_order(request),
            indexed=self.indexed_columns(request),
            sort_limit=self.sort_limit(request),
        )
        if start and not page.rows:
            raise IncorrectLookupParameters
        self.result_list = page.rows
        self.result_count = page.total
        self.is_estimated = page.is_estimated
        self.paginator = Paginator(range(min(page.total, self.model_admin.max_paged)), self.list_per_page)
        self.full_result_count = None
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = True
        self.multi_page = page.total > self.list_per_page
        if not page.is_in_order:
            messages.warning(
                request,
                f"Lists of more than {self.model_admin.max_sorted:,} {self.opts.verbose_name_plural} cannot have this"
                " order. Narrow the list by a filter or a search.",
            )
        self.search_note = self.model_admin.search_note(request, self.query) if self.query else ""
        if personal_data.is_hidden(request):
            for row in self.result_list:
                self.model_admin.hide_personal_data(row)

    def default_order(self, request: HttpRequest) -> list[str]:
        return [str(column) for column in self.model_admin.get_ordering(request)]

    def indexed_columns(self, request: HttpRequest) -> frozenset[str]:
        """The columns in whose order the matches of a long list are found soon.

        Names and addresses begin alike, so the matches of a search may all be at the end of the order of addresses.
        """
        default = {column.lstrip("-") for column in self.default_order(request)[:1]}
        return self.model_admin.indexed_columns & default if self.query else self.model_admin.indexed_columns

    def sort_limit(self, request: HttpRequest) -> int:
        """The number of rows up to which sorting is cheaper than reading an index in its order.

        Matches of a filter are spread evenly over the default order more often than over another one.
        """
        is_default = list(self.queryset.query.order_by) == self.default_order(request)
        return self.model_admin.max_paged if is_default else self.model_admin.max_sorted

    @property
    def total_text(self) -> str:
        """The number of rows with their name: "97 users", "about 1,000,000 users"."""
        total = round_estimate(self.result_count) if self.is_estimated else self.result_count
        noun = self.opts.verbose_name if total == 1 else self.opts.verbose_name_plural
        return f"{'about ' if self.is_estimated else ''}{total:,} {noun}"

    @property
    def export_url(self) -> str:
        return f"export/{self.get_query_string()}"

    @property
    def paged_text(self) -> str:
        """The number of rows that pages show, if there are more: "10,000"; otherwise empty."""
        limit = self.model_admin.max_paged
        return f"{limit:,}" if self.result_count > limit else ""


class FilteredList(OperatorChangeList):
    """A list whose rows are not read: its `queryset` has the filters, the search and the order of the request."""

    def get_results(self, request: HttpRequest) -> None:
        read_in_time(lambda: _plan(self.queryset))  # checks the values of the filters


def read_page(
    queryset: QuerySet[Any],
    *,
    start: int,
    size: int,
    default_order: list[str],
    indexed: frozenset[str],
    sort_limit: int,
) -> RowPage:
    """The rows of a page, in three or four statements. `indexed`: columns with an index of all rows in their order.

    A list of up to `sort_limit` rows is sorted. Raises ListTooSlow, and IncorrectLookupParameters for a filter whose
    value the database refuses.
    """

    def read() -> RowPage:
        _plan_for_values()
        try:
            expected = estimate(queryset)
        except EmptyResultSet:  # the conditions exclude each other
            return RowPage(rows=[], total=0)
        if expected <= sort_limit:
            keys, total = collect(queryset, start=start, size=size, limit=sort_limit)
            if total <= sort_limit:
                rows = {row.pk: row for row in queryset.filter(pk__in=keys).order_by()} if keys else {}
                return RowPage(rows=[rows[key] for key in keys if key in rows], total=total)
        is_in_order = _has_index(queryset, indexed)
        ordered = queryset if is_in_order else queryset.order_by(*default_order)
        found = list(ordered[start : start + size])
        if len(found) < size:
            return RowPage(rows=found, total=start + len(found), is_in_order=is_in_order)
        return RowPage(rows=found, total=max(expected, sort_limit + 1), is_estimated=True, is_in_order=is_in_order)

    return read_in_time(read)


def read_first_rows(queryset: QuerySet[Any], *, size: int, limit: int) -> list[Any]:
    """The first rows of a list of up to `limit` rows, which are collected before they are sorted. Two statements.

    Raises as `read_page`.
    """

    def read() -> list[Any]:
        try:
            keys, _ = collect(queryset, start=0, size=size, limit=limit)
        except EmptyResultSet:
            return []
        rows = {row.pk: row for row in queryset.filter(pk__in=keys).order_by()} if keys else {}
        return [rows[key] for key in keys if key in rows]

    return read_in_time(read)


def read_in_time(read: Callable[[], Value], *, milliseconds: int | None = None) -> Value:
    """The result of `read`.

    Raises ListTooSlow if a statement takes longer, and IncorrectLookupParameters as `read_page`.
    """
    try:
        found = within_timeout(read, milliseconds=milliseconds or _TIMEOUT_MILLISECONDS)
    except DataError:  # such as an invalid regular expression
        raise IncorrectLookupParameters from None
    if found is None:
        raise ListTooSlow
    return found


def _plan(queryset: QuerySet[Any]) -> int:
    try:
        return estimate(queryset)
    except EmptyResultSet:  # the conditions exclude each other
        return 0


def read_keys(
    queryset: QuerySet[Any], *, default_order: list[str], indexed: frozenset[str], sort_limit: int, limit: int
) -> list[Any]:
    """The primary keys of a list in its order, at most `limit` + 1. Raises as `read_page`."""

    def read() -> list[Any]:
        _plan_for_values()
        try:
            if estimate(queryset) <= sort_limit:
                keys, total = collect(queryset, start=0, size=sort_limit, limit=sort_limit)
                if total <= sort_limit:
                    return keys
        except EmptyResultSet:
            return []
        ordered = queryset if _has_index(queryset, indexed) else queryset.order_by(*default_order)
        return list(ordered.values_list("pk", flat=True)[: limit + 1])

    return read_in_time(read, milliseconds=_EXPORT_TIMEOUT_MILLISECONDS)


def _has_index(queryset: QuerySet[Any], indexed: frozenset[str]) -> bool:
    """True if an index has the rows in the order of the query."""
    first = next(iter(queryset.query.order_by), "")
    return str(first).lstrip("-") in indexed


def collect(queryset: QuerySet[Any], *, start: int, size: int, limit: int) -> tuple[list[Any], int]:
    """The primary keys of a page of the sorted rows, and the number of all rows, at most `limit` + 1."""
    own_key = queryset.model._meta.pk.name
    order = [(column.lstrip("-"), column.startswith("-")) for column in map(str, queryset.query.order_by)]
    columns = [name for name, _ in order if name not in ("pk", own_key)]
    sql, values = queryset.order_by().values_list("pk", *columns)[: limit + 1].query.sql_with_params()
    positions = {"pk": 1, own_key: 1, **{name: number for number, name in enumerate(columns, 2)}}
    order_sql = ", ".join(f"{positions[name]}{' DESC' if is_descending else ''}" for name, is_descending in order)
    names = ", ".join(["key", *(f"c{number}" for number in range(len(columns)))])
    with connection.cursor() as cursor:
        # The limit of the inner query makes the planner find all rows before it sorts them.
        cursor.execute(
            f"WITH found ({names}) AS MATERIALIZED ({sql}), page AS (SELECT * FROM found"  # noqa: S608  (Django's SQL)
            f" ORDER BY {order_sql or '1'} LIMIT {size:d} OFFSET {start:d})"
            " SELECT page.key, counted.number FROM (SELECT count(*) AS number FROM found) counted"
            " LEFT JOIN page ON true",
            values,
        )
        rows = cursor.fetchall()
    return [key for key, _ in rows if key is not None], int(rows[0][1])


def _plan_for_values() -> None:
    """Plan each statement for its values; a prepared one would read the table for the most recent rows too."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")


def estimate(queryset: QuerySet[Any]) -> int:
    """The number of rows that the planner expects."""
    sql, values = queryset.order_by().values_list("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
        plan = cursor.fetchone()[0]
    return int((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"])


def round_estimate(number: int) -> int:
    """An estimate with three significant digits."""
    return round(number, _SIGNIFICANT_DIGITS - len(str(number)))

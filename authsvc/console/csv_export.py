"""Exports a filtered list as CSV (RFC 4180), in batches of rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from html import unescape
from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.messages import constants as levels
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from authsvc import audit
from authsvc.console import lists, operators
from authsvc.console.actions import create_context
from authsvc.db import read_replica
from authsvc.display_text import EMPTY
from authsvc.operator_access import Access

if TYPE_CHECKING:
    from authsvc.console.model_admin import OperatorAdmin

_BATCH = 1_000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters with which spreadsheets recognise a formula; the last four are full-width forms."""
_MAX_FILTER_LENGTH = 1_000
_TAG = re.compile("<[^>]*>")


def is_export(request: HttpRequest) -> bool:
    return request.resolver_match is not None and (request.resolver_match.url_name or "").endswith("_export")


@require_POST
def export_list(request: HttpRequest, model_admin: OperatorAdmin) -> HttpResponseBase:
    """The rows of the list with the same query string as a CSV file. The audit trail records it first.

    Viewers receive the rows without personal data.
    """
    is_hidden = operators.operator_of(request).access < Access.SUPPORT
    changelist = model_admin.filtered_list(request)
    keys = lists.read_keys(
        changelist.queryset,
        default_order=changelist.default_order(request),
        indexed=changelist.indexed_columns(request),
        sort_limit=changelist.sort_limit(request),
        limit=model_admin.max_export_rows,
    )
    if len(keys) > model_admin.max_export_rows:
        rows = f"{model_admin.max_export_rows:,} {model_admin.opts.verbose_name_plural}"
        text = f"This list has more than {rows}, the most for one export."
        model_admin.message_user(request, f"{text} Narrow it by a filter or a search.", levels.WARNING)
        return HttpResponseRedirect(model_admin.list_url() + changelist.get_query_string())
    context = create_context(request)
    audit.record(
        audit.Action.LIST_EXPORTED,
        actor=context.actor,
        caller=context.caller,
        at=context.at,
        traits={
            "list": str(model_admin.opts.verbose_name_plural),
            "filter": ", ".join(_describe_filter(model_admin, request))[:_MAX_FILTER_LENGTH],
            "rows": len(keys),
            "personal_data": "hidden" if is_hidden else "shown",
        },
    )
    name = f"{model_admin.opts.verbose_name_plural} {context.at:%Y-%m-%d %H%M}.csv".replace(" ", "-")
    return StreamingHttpResponse(
        _write(
            model_admin,
            model_admin.get_queryset(request),
            keys,
            is_hidden=is_hidden,
            from_replica=read_replica.is_permitted(),
        ),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _describe_filter(model_admin: OperatorAdmin, request: HttpRequest) -> Iterator[str]:
    """The parameters of a list, without the values that may be data of a user, who may be erased later."""
    for name, text in request.GET.items():
        is_personal = name == SEARCH_VAR or name.partition("__")[0] in model_admin.personal_columns
        yield name if is_personal else f"{name}={text}"


class _Lines:
    """The file of a CSV writer, which returns each line."""

    def write(self, line: str) -> str:
        return line


def _write(
    model_admin: OperatorAdmin, rows: QuerySet[Any], keys: list[Any], *, is_hidden: bool, from_replica: bool
) -> Iterator[str]:
    columns = model_admin.export_columns or tuple(str(name) for name in model_admin.list_display)
    writer = csv.writer(_Lines())
    yield writer.writerow([_title(model_admin, name) for name in columns])
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        with read_replica.permit(from_replica):
            found = read_replica.read(partial(_read_batch, rows, batch))
        # Each read chooses a replica, which may be older than that of the keys.
        if from_replica and len(found) < len(batch):
            found |= _read_batch(rows, [key for key in batch if key not in found])
        lines = []
        for row in (found[key] for key in batch if key in found):
            if is_hidden:
                model_admin.hide_personal_data(row)
            lines.append(writer.writerow([to_cell(_value(model_admin, row, name)) for name in columns]))
        yield "".join(lines)


def _read_batch(rows: QuerySet[Any], keys: list[Any]) -> dict[Any, Any]:
    return {row.pk: row for row in rows.filter(pk__in=keys).order_by()}


def _title(model_admin: OperatorAdmin, name: str) -> str:
    if name == "__str__":
        return str(model_admin.opts.verbose_name)
    return str(getattr(getattr(model_admin, name, None), "short_description", name.replace("_", " ")))


def _value(model_admin: OperatorAdmin, row: Any, name: str) -> Any:
    if name == "__str__":
        return str(row)
    method = getattr(model_admin, name, None)
    return method(row) if callable(method) else getattr(row, name)


@lru_cache(maxsize=1024)
def _text_of(html: str) -> str:
    """The text of a badge or link, whose content is escaped."""
    return unescape(_TAG.sub("", html))


def to_cell(value: Any) -> str:
    """A value as text that no spreadsheet takes for a formula."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    text = "" if value is None or value == EMPTY else str(value)
    if isinstance(value, SafeString):
        text = _text_of(text)
    text = text.replace("\0", "")
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text

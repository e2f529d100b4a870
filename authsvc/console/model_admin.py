"""Base of the console's lists and pages: rows are read-only, and actions call services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin import helpers
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from authsvc.console import csv_export, personal_data
from authsvc.console.actions import SOURCE_ROW, is_whole_list
from authsvc.console.lists import FilteredList, OperatorChangeList
from authsvc.console.operators import operator_of
from authsvc.console.read_only_admin import MAX_COUNTED, SECRET_COLUMNS, ReadOnly
from authsvc.operator_access import Access, access_of

_NO_FILTER = "There is no such filter."


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardStat:
    """A count on the dashboard, with a link to the list of the counted rows."""

    label: str
    count: int
    url: str
    limit: int = MAX_COUNTED
    """A count that reaches the limit is shown as "limit+"."""
    is_alarming: bool = False
    """Highlight any count above 0."""


class OperatorAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # generic in its stubs only
    """Lists and shows the rows of one table to operators.

    Subclasses set `list_display`, `fields` or `fieldsets`, `search_fields`, `list_filter`, `ordering`, and `actions`
    made with `action`. `row_actions` are the names of the actions on a row's page.
    """

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    has_menu_entry: ClassVar[bool] = True
    """False if another page links to the list."""
    list_max_show_all = 0
    indexed_columns: ClassVar[frozenset[str]] = frozenset({"created_at"})
    """Columns with an index that has all rows in their order. Long lists can be sorted by these only."""
    row_actions: ClassVar[tuple[str, ...]] = ()
    export_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of exports, which are columns of the row or of the list; those of the list if empty."""
    personal_columns: ClassVar[frozenset[str]] = frozenset()
    """Columns with personal data, by which viewers cannot filter."""
    max_paged: ClassVar[int] = 10_000
    """Rows that pages show. A longer list in its default order has an estimated number of rows."""
    max_sorted: ClassVar[int] = 30_000
    """Rows that are sorted by any column."""
    max_list_rows: ClassVar[int] = 10_000
    """Rows of an action on a whole list."""
    max_export_rows: ClassVar[int] = 250_000
    """Rows of an export. Their primary keys are in memory, about 60 MB; the rows are sent in batches."""
    change_form_template = "operator/detail.html"
    change_list_template = "operator/list.html"

    class Media:
        css = {"all": ("operator/content.css",)}

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        """Counts of this table for the dashboard. Count with `bounded_count`."""
        yield from ()

    def display_name(self, row: Any) -> str:
        """The row's name in titles and messages."""
        return str(row)

    def available_actions(self, row: Any) -> Iterable[str]:
        """The names of `row_actions` that apply to a row."""
        return self.row_actions

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Further variables of the template of a row's page."""
        return {}

    def row_links(self, request: HttpRequest, row: Any) -> list[tuple[str, str]]:
        """Labels and URLs of further pages, shown next to the actions on a row's page."""
        return []

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        """Labels and URLs of further pages, shown above the list."""
        return []

    def search_note(self, request: HttpRequest, search_term: str) -> str:
        """A text below the search box about the limits of this search; empty for none."""
        return ""

    def account_role(self, row: Any) -> str | None:
        """The role of the user whose account an action on the row changes; None if it changes no account."""
        return None

    def hide_personal_data(self, row: Any) -> None:
        """Replace the personal data in a row that is about to be shown to a viewer."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        access = operator_of(request).access
        return {
            name: entry
            for name, entry in super().get_actions(request).items()
            if entry and getattr(entry[0], "access", Access.ADMIN) <= access
        }

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and personal_data.is_hidden(request):
            self.hide_personal_data(row)
        return row

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[OperatorChangeList]:
        needs_no_rows = csv_export.is_export(request) or self._is_action(request)
        return FilteredList if needs_no_rows else OperatorChangeList

    def _is_action(self, request: HttpRequest) -> bool:
        """True if an action follows, after which the admin does not render the list."""
        if request.method != "POST" or "_save" in request.POST:
            return False
        has_rows = is_whole_list(request) or helpers.ACTION_CHECKBOX_NAME in request.POST
        return has_rows and request.POST.get("action") in self.get_actions(request)

    def get_sortable_by(self, request: HttpRequest) -> list[Any]:
        """The columns by which the operator can sort: their order would reveal hidden personal data to viewers."""
        names = [str(name) for name in super().get_sortable_by(request)]
        if not personal_data.is_hidden(request):
            return names
        return [name for name in names if self.personal_columns.isdisjoint((name, self._order_column(name)))]

    def _order_column(self, name: str) -> str:
        return str(getattr(getattr(self, name, None), "admin_order_field", name)).lstrip("-")

    def row_url(self, row: Model) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def list_url(self, **parameters: Any) -> str:
        """URL of the list with filter parameters."""
        url = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist", query=parameters)
        return str(url)

    def get_urls(self) -> list[URLPattern]:
        # Rows are not added or deleted by form, and the audit trail replaces the history page.
        removed = ("_add", "_delete", "_history")
        name = f"{self.opts.app_label}_{self.opts.model_name}_export"
        view = self.admin_site.admin_view(partial(csv_export.export_list, model_admin=self))
        export = path("export/", view, name=name)
        return [export, *(pattern for pattern in super().get_urls() if not (pattern.name or "").endswith(removed))]

    def action_checkbox(self, obj: Model) -> SafeString:
        # The admin renders a template for each row, a quarter of the cost of a page.
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select" aria-label="Select {}">',
            helpers.ACTION_CHECKBOX_NAME,
            obj.pk,
            obj,
        )

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        if lookup in {getattr(entry, "parameter_name", None) for entry in self.list_filter}:
            return True  # the filter checks the value
        # Django's admin accepts filters on any column, and a matching filter would reveal a secret value.
        hidden = SECRET_COLUMNS | self.personal_columns if personal_data.is_hidden(request) else SECRET_COLUMNS
        # Django fails on years that no date has.
        refused = hidden | {"year", "iso_year"}
        return refused.isdisjoint(lookup.split("__")) and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if ERROR_FLAG in request.GET:  # for which the admin would show all rows
            raise BadRequest(_NO_FILTER)
        name = request.POST.get("action")
        if name in (self.actions or ()) and name not in self.get_actions(request):
            raise PermissionDenied
        if request.method == "POST" and name in (self.actions or ()) and is_whole_list(request):
            # Django requires a ticked row too.
            changelist: Any = self.filtered_list(request)
            response = self.response_action(request, changelist.queryset)
            return response or HttpResponseRedirect(request.get_full_path())
        context = {"title": capfirst(self.opts.verbose_name_plural), "page_links": self.page_links(request)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Model | None = None,
    ) -> HttpResponse:
        actions = self.get_actions(request)
        context["row_actions"] = [entry[0] for name in self.available_actions(obj) if (entry := actions.get(name))]
        context["row_links"] = self.row_links(request, obj) if obj else []
        context["actions_url"] = self.list_url()
        context["row_name"] = context["subtitle"] = self.display_name(obj) if obj else ""
        context |= self.row_context(request, obj)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def filtered_list(self, request: HttpRequest) -> FilteredList:
        """The list of the request without its rows. Raises BadRequest for an unknown filter."""
        if ERROR_FLAG in request.GET:
            raise BadRequest(_NO_FILTER)
        try:
            return cast(FilteredList, self.get_changelist_instance(request))
        except IncorrectLookupParameters:  # the admin catches it for pages of a list only
            raise BadRequest(_NO_FILTER) from None

    def response_action(  # type: ignore[override]  # the stubs have a parameter of later versions
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        for key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME):
            self.opts.pk.to_python(key)  # raises ValidationError for an invalid key
        response = super().response_action(request, queryset)
        source_row = request.POST.get(SOURCE_ROW)
        if source_row and isinstance(response, HttpResponseRedirect):
            row = self.get_object(request, source_row)
            return HttpResponseRedirect(self.row_url(row) if row else self.list_url())
        return response

    def consequences(self, action: str, rows: list[Any]) -> list[str]:
        """Texts on the confirmation page of an action about its effect on these rows."""
        return []

    def costs(self, request: HttpRequest, action: str, rows: QuerySet[Any]) -> list[tuple[str, str]]:
        """Labels and texts about the cost of an action on several rows; its confirmation page shows them."""
        return []

    def initial_values(self, row: Any) -> dict[str, Any]:
        """Values of a row with which the forms of actions start."""
        return {}

    def find_refusal(self, request: HttpRequest, row: Any) -> str:
        """The reason why this operator must not change a row; empty if there is none."""
        return self.find_role_refusal(request, self.account_role(row))

    def find_role_refusal(self, request: HttpRequest, role: str | None) -> str:
        """The reason why this operator must not change an account with this role; empty if there is none."""
        if operator_of(request).access < Access.ADMIN and access_of(role) is not None:
            # A recovery, a lifted ban or a removed factor would open the account of another operator.
            return "Accounts of operators are changed by administrators"
        return ""


def bounded_count(queryset: QuerySet[Any]) -> int:
    """The number of rows, counted up to `MAX_COUNTED`."""
    return queryset.order_by()[:MAX_COUNTED].count()

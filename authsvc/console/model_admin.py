"""Base of the console's lists and pages: rows are read-only, and actions call services."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, wraps
from typing import Any, ClassVar, Protocol

from django import forms
from django.contrib import admin
from django.contrib.admin import helpers
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.messages import constants as levels
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, reverse
from django.utils import timezone

from authsvc import audit
from authsvc.caller import Caller, caller_of
from authsvc.console import personal_data
from authsvc.console.operators import Access, access_of, actor_of, operator_of
from authsvc.console.read_only_admin import MAX_COUNTED, SECRET_COLUMNS, BoundedPaginator, ReadOnly
from authsvc.errors import ApiError

MAX_ACTION_ROWS = 100
_CONFIRMED = "confirmed"
_SOURCE_ROW = "source_row"
_TYPED = "typed_name"
_PREFIX = "action"
_OPERATOR_ACCOUNT = "Accounts of operators are changed by administrators"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """The actor, caller and time of an action, and the values of its form."""

    actor: audit.Administrator
    caller: Caller
    at: datetime
    values: Mapping[str, Any] = field(default_factory=dict)
    """Cleaned values of the action's form; empty without a form."""
    form: Any = None
    """The valid form, for values that depend on what the operator saw."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOnce:
    """A secret that an action created for the operator to pass on. It is shown on the page that follows, once."""

    label: str
    text: str = field(repr=False)
    hint: str = ""


class ActionMethod(Protocol):
    def __call__(self, page: Any, row: Any, context: ActionContext, /) -> str | ShownOnce | None:
        """Call one service for one row and return a message for the operator, or None. May raise ApiError."""


def action(
    *,
    label: str,
    success_message: str,
    confirmation: str = "",
    form: type[forms.Form] | None = None,
    is_dangerous: bool = False,
    asks_for_name: bool = False,
    needs_reason: bool = False,
    access: Access = Access.ADMIN,
) -> Callable[[ActionMethod], Callable[..., HttpResponse | None]]:
    """Make a method of an `OperatorAdmin` an action, for ticked rows of the list and as a button on a row's page.

    `label` is the button's text. `success_message` is reported before the row's name, as in "Banned". With a
    `confirmation` text or a `form`, a confirmation page comes first; `asks_for_name` makes the operator type the row's
    name there, and `needs_reason` state a reason. The method is called once per row; an ApiError is
    shown, and the next row follows. Operators with less than `access` neither see the action nor can run it.
    """

    def decorate(method: ActionMethod) -> Callable[..., HttpResponse | None]:
        @wraps(method)
        def run(page: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            if operator_of(request).access < access:
                raise PermissionDenied
            rows = list(queryset[:MAX_ACTION_ROWS])
            if not rows:
                page.message_user(request, "No action taken: the selected rows no longer exist.", levels.WARNING)
                return None
            is_confirmed = _CONFIRMED in request.POST
            bound = page.build_form(form, rows[0], request.POST if is_confirmed else None) if form else None
            asked = page.name_to_type(rows) if asks_for_name else ""
            is_wrong_name = is_confirmed and request.POST.get(_TYPED, "").strip().casefold() != asked.casefold()
            if is_confirmed and needs_reason and not actor_of(request).reason:
                return page.confirm_action(request, rows, run=run, form=bound, asked=asked, is_reason_missing=True)
            if asked and is_wrong_name:
                return page.confirm_action(request, rows, run=run, form=bound, asked=asked, is_wrong_name=True)
            if (confirmation or bound) and not (is_confirmed and (bound is None or bound.is_valid())):
                return page.confirm_action(request, rows, run=run, form=bound, asked=asked)
            context = ActionContext(
                actor=actor_of(request),
                caller=caller_of(request),
                at=timezone.now(),
                values=bound.cleaned_data if bound else {},
                form=bound,
            )
            shown = []
            for row in rows:
                call = partial(method, page, row, context)
                if result := page.run_action(request, call, row=row, success_message=success_message):
                    shown.append((page.display_name(row), result))
            return (
                page.show_once(request, shown, title=label, back_url=page.back_url(request, rows[0])) if shown else None
            )

        run.name = run.__name__  # type: ignore[attr-defined]
        run.do_not_call_in_templates = True  # type: ignore[attr-defined]
        run.short_description = run.label = label  # type: ignore[attr-defined]
        run.needs_reason = needs_reason  # type: ignore[attr-defined]
        run.confirmation, run.is_dangerous, run.access = confirmation, is_dangerous, access  # type: ignore[attr-defined]
        return run

    return decorate


class OperatorAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # generic in its stubs only
    """Lists and shows the rows of one table to operators.

    Subclasses set `list_display`, `fields` or `fieldsets`, `search_fields`, `list_filter`, `ordering`, and `actions`
    made with `action`. `row_actions` are the names of the actions on a row's page.
    """

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    actions_selection_counter = False
    row_actions: ClassVar[tuple[str, ...]] = ()
    personal_columns: ClassVar[frozenset[str]] = frozenset()
    """Columns with personal data, by which viewers cannot filter."""
    change_form_template = "operator/detail.html"
    change_list_template = "operator/list.html"

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        """Counts of this table for the dashboard. Count with `bounded_count`."""
        yield from ()

    def display_name(self, row: Any) -> str:
        """The row's name in titles and messages."""
        return str(row)

    def available_actions(self, row: Any) -> Iterable[str]:
        """The names of `row_actions` that apply to a row."""
        return self.row_actions

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        """Labels and URLs of further pages, shown above the list."""
        return []

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

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        if personal_data.is_hidden(request):
            changelist.result_list = list(changelist.result_list)
            for row in changelist.result_list:
                self.hide_personal_data(row)
        return changelist

    def row_url(self, row: Model) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def list_url(self, **parameters: Any) -> str:
        """URL of the list with filter parameters."""
        url = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist", query=parameters)
        return str(url)

    def get_urls(self) -> list[URLPattern]:
        # Rows are not added or deleted by form, and the audit trail replaces the history page.
        removed = ("_add", "_delete", "_history")
        return [pattern for pattern in super().get_urls() if not (pattern.name or "").endswith(removed)]

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        if lookup in {getattr(entry, "parameter_name", None) for entry in self.list_filter}:
            return True  # the filter checks the value
        # Django's admin accepts filters on any column, and a matching filter would reveal a secret value.
        hidden = SECRET_COLUMNS | self.personal_columns if personal_data.is_hidden(request) else SECRET_COLUMNS
        return hidden.isdisjoint(lookup.split("__")) and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if ERROR_FLAG in request.GET:  # for which the admin would show all rows
            raise BadRequest("There is no such filter.")
        name = request.POST.get("action")
        if name in (self.actions or ()) and name not in self.get_actions(request):
            raise PermissionDenied
        return super().changelist_view(request, {"page_links": self.page_links(request), **(extra_context or {})})

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
        context["row_actions"] = [
            {"name": name, "run": entry[0]} for name in self.available_actions(obj) if (entry := actions.get(name))
        ]
        context["actions_url"] = self.list_url()
        context["row_name"] = context["subtitle"] = self.display_name(obj) if obj else ""
        return super().render_change_form(request, context, add, change, form_url, obj)

    def response_action(  # type: ignore[override]  # the stubs have a parameter of later versions
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        if request.POST.get("select_across") == "1":
            raise SuspiciousOperation("Actions apply to ticked rows, not to all rows.")
        for key in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME):
            self.opts.pk.to_python(key)  # raises ValidationError for an invalid key
        response = super().response_action(request, queryset)
        source_row = request.POST.get(_SOURCE_ROW)
        if source_row and isinstance(response, HttpResponseRedirect):
            row = self.get_object(request, source_row)
            return HttpResponseRedirect(self.row_url(row) if row else self.list_url())
        return response

    def confirm_action(
        self,
        request: HttpRequest,
        rows: list[Any],
        *,
        run: Any,
        form: forms.Form | None,
        asked: str = "",
        is_wrong_name: bool = False,
        is_reason_missing: bool = False,
    ) -> HttpResponse:
        """The page that asks for confirmation before an action runs."""
        context = {
            **self.admin_site.each_context(request),
            "title": run.label,
            "opts": self.opts,
            "run": run,
            "rows": [(row.pk, self.display_name(row)) for row in rows],
            "form": form,
            "asked": asked,
            "is_wrong_name": is_wrong_name,
            "is_reason_missing": is_reason_missing,
            "source_row": request.POST.get(_SOURCE_ROW, ""),
            "back_url": self.back_url(request, rows[0]),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "operator/confirm_action.html", context)

    def build_form(self, form: type[forms.Form], row: Any, data: Any) -> forms.Form:
        """The form of an action, with the values of the first row where they help."""
        return form(data, prefix=_PREFIX)

    def name_to_type(self, rows: list[Any]) -> str:
        """The text that the operator types before a dangerous action."""
        return self.display_name(rows[0]) if len(rows) == 1 else f"{len(rows)} {self.opts.verbose_name_plural}"

    def back_url(self, request: HttpRequest, row: Any) -> str:
        """The page from which an action was started: that of the row, or the list."""
        return self.row_url(row) if request.POST.get(_SOURCE_ROW) else self.list_url()

    def show_once(
        self, request: HttpRequest, shown: list[tuple[str, ShownOnce]], *, title: str, back_url: str
    ) -> HttpResponse:
        """The page with the secrets of an action. They are stored nowhere, so it cannot be shown again."""
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "shown": shown,
            "back_url": back_url,
        }
        return TemplateResponse(request, "operator/shown_once.html", context)

    def form_page(
        self, request: HttpRequest, form: forms.Form, *, title: str, explanation: str = "", status: int = 200
    ) -> HttpResponse:
        """A page with a form that concerns no existing row."""
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "form": form,
            "explanation": explanation,
            "back_url": self.list_url(),
        }
        return TemplateResponse(request, "operator/form.html", context, status=status)

    def run_action(
        self, request: HttpRequest, call: Callable[[], str | ShownOnce | None], *, row: Model, success_message: str
    ) -> ShownOnce | None:
        """Run an action for one row and show its result."""
        if operator_of(request).access < Access.ADMIN and access_of(self.account_role(row)) is not None:
            # A recovery, a lifted ban or a removed factor would open the account of another operator.
            self.message_user(request, f"{self.display_name(row)}: {_OPERATOR_ACCOUNT}", levels.ERROR)
            return None
        try:
            message = call()
        except ApiError as error:
            self.message_user(request, f"{self.display_name(row)}: {error.message}", levels.ERROR)
        else:
            if isinstance(message, ShownOnce):
                return message
            self.message_user(request, message or f"{success_message}: {self.display_name(row)}", levels.SUCCESS)
        return None


def bounded_count(queryset: QuerySet[Any], *, limit: int = MAX_COUNTED) -> int:
    """The number of rows, counted up to `limit`."""
    return queryset.order_by()[:limit].count()

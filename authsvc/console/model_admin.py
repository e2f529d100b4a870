"""The base of every list and page of the operator console: read-only; what changes something calls a service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, wraps
from typing import Any, ClassVar, Protocol, cast
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.admin import helpers
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.messages import constants as levels
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, reverse

from authsvc import audit, clock
from authsvc.api import callers
from authsvc.caller import Caller
from authsvc.console.read_only_admin import MOST_COUNTED, SECRET_COLUMNS, BoundedPaginator, ReadOnly
from authsvc.errors import ApiError

MOST_AT_ONCE = 100
_CONFIRMED = "confirmed"
_ASKED_FROM = "asked_from"
_PREFIX = "wish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Who works in the console: a user in one of their sessions, read anew for every request.

    Answers the questions that Django's admin asks of a user. Permissions of single tables are nobody's: what a page
    lets an operator do is in its `OperatorAdmin`.
    """

    id: UUID
    session_id: UUID
    role: str
    name: str
    """Address or number, for the page's head."""
    is_active: ClassVar = True
    is_staff: ClassVar = True
    is_authenticated: ClassVar = True
    is_anonymous: ClassVar = False
    has_usable_password: ClassVar = False
    """There is no page to change it on."""

    @property
    def pk(self) -> UUID:
        return self.id

    def get_username(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name

    def has_perm(self, _permission: str, _row: object = None) -> bool:
        return False

    def has_module_perms(self, _app_label: str) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An operator's wish to have something done, as services want to be told of it."""

    actor: audit.Administrator
    caller: Caller
    at: datetime
    values: Mapping[str, Any] = field(default_factory=dict)
    """The cleaned values of the action's form; empty where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number on the start page and the list that shows what was counted."""

    label: str
    count: int
    url: str
    most: int = MOST_COUNTED
    """From this count on the number is shown as "more than"."""
    is_alarming: bool = False
    """Whether anything but 0 asks for somebody to look."""


def operator_of(request: HttpRequest) -> Operator:
    """Who makes a request that the console has let in."""
    return cast(Operator, request.user)


class Deed(Protocol):
    def __call__(self, page: Any, row: Any, order: Order, /) -> str | None:
        """Call one service for one row. The answer, if any, is shown to the operator. May raise ApiError."""


def action(
    *, label: str, done: str, question: str = "", form: type[forms.Form] | None = None, is_dangerous: bool = False
) -> Callable[[Deed], Callable[..., HttpResponse | None]]:
    """Make a method of an `OperatorAdmin` an action: in the list for the rows ticked, on a row's page as a button.

    `label`: what the button says; `done`: what is reported, in front of the row's name ("Banned"); `question` and
    `form`: what a page in between asks, which has to be answered first. The method is called once for each row with
    an `Order`; an ApiError is shown and the next row follows.
    """

    def declare(deed: Deed) -> Callable[..., HttpResponse | None]:
        @wraps(deed)
        def run(page: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            rows = list(queryset[:MOST_AT_ONCE])
            if not rows:
                page.message_user(request, "Nothing was done: these rows are no longer there.", levels.WARNING)
                return None
            is_answered = _CONFIRMED in request.POST
            asked = form(request.POST if is_answered else None, prefix=_PREFIX) if form else None
            if (question or asked) and not (is_answered and (asked is None or asked.is_valid())):
                return page.ask(request, rows, run=run, form=asked)
            order = Order(
                actor=audit.Administrator(role=operator_of(request).role),
                caller=callers.caller_of(request),
                at=clock.now(),
                values=asked.cleaned_data if asked else {},
            )
            for row in rows:
                page.carry_out(request, partial(deed, page, row, order), row=row, done=done)
            return None

        run.name = run.__name__  # type: ignore[attr-defined]
        run.do_not_call_in_templates = True  # type: ignore[attr-defined]
        run.short_description = run.label = label  # type: ignore[attr-defined]
        run.question, run.is_dangerous = question, is_dangerous  # type: ignore[attr-defined]
        return run

    return declare


class OperatorAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # generic in its stubs only
    """Lists and shows the rows of one table to operators.

    Subclasses name `list_display`, `fields` or `fieldsets`, `search_fields`, `list_filter`, `ordering`, and `actions`
    made with `action`. `row_actions` are the names of those that a row's page offers as buttons.
    """

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = BoundedPaginator
    list_per_page = 50
    list_max_show_all = 0
    actions_selection_counter = False
    row_actions: ClassVar[tuple[str, ...]] = ()
    change_form_template = "operator/row.html"
    change_list_template = "operator/list.html"

    def figures(self) -> Iterator[Figure]:
        """What the start page says about this table. Every count must be bounded: `count_some`."""
        yield from ()

    def name_of(self, row: Any) -> str:
        """What operators call this row."""
        return str(row)

    def offered(self, row: Any) -> Iterable[str]:
        """Which of `row_actions` have something to do for a row."""
        return self.row_actions

    def row_url(self, row: Model) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])

    def list_url(self, **parameters: Any) -> str:
        """The address of the list, filtered."""
        url = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist", query=parameters)
        return str(url)

    def get_urls(self) -> list[URLPattern]:
        # Not pages of ours: nothing is added or deleted by form, and what has happened is in the audit trail.
        absent = ("_add", "_delete", "_history")
        return [pattern for pattern in super().get_urls() if not (pattern.name or "").endswith(absent)]

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        # By itself the admin lets any column of the table be filtered, and a filter that matches tells what is in it.
        return SECRET_COLUMNS.isdisjoint(lookup.split("__")) and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if ERROR_FLAG in request.GET:  # where the admin would show all rows instead of those asked for
            raise BadRequest("There is no such filter.")
        return super().changelist_view(request, extra_context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Model | None = None,
    ) -> HttpResponse:
        known = self.get_actions(request)
        context["row_actions"] = [
            {"name": name, "run": found[0]} for name in self.offered(obj) if (found := known.get(name))
        ]
        context["actions_url"] = self.list_url()
        context["row_name"] = context["subtitle"] = self.name_of(obj) if obj else ""
        return super().render_change_form(request, context, add, change, form_url, obj)

    def response_action(  # type: ignore[override]  # the stubs know a parameter of later versions
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        if request.POST.get("select_across") == "1":
            raise SuspiciousOperation("An action is carried out for the rows that were ticked, not for all there are.")
        for chosen in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME):
            self.opts.pk.to_python(chosen)  # what cannot be a key is refused as such
        answer = super().response_action(request, queryset)
        asked_from = request.POST.get(_ASKED_FROM)
        if asked_from and isinstance(answer, HttpResponseRedirect):
            row = self.get_object(request, asked_from)
            return HttpResponseRedirect(self.row_url(row) if row else self.list_url())
        return answer

    def ask(self, request: HttpRequest, rows: list[Any], *, run: Any, form: forms.Form | None) -> HttpResponse:
        """The page between an action's button and the action."""
        context = {
            **self.admin_site.each_context(request),
            "title": run.label,
            "opts": self.opts,
            "run": run,
            "rows": [(row.pk, self.name_of(row)) for row in rows],
            "form": form,
            "asked_from": request.POST.get(_ASKED_FROM, ""),
            "back_url": self.row_url(rows[0]) if request.POST.get(_ASKED_FROM) else self.list_url(),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "operator/ask.html", context)

    def carry_out(self, request: HttpRequest, deed: Callable[[], str | None], *, row: Model, done: str) -> None:
        """Do one thing and tell the operator how it went."""
        try:
            said = deed()
        except ApiError as error:
            self.message_user(request, f"{self.name_of(row)}: {error.message}", levels.ERROR)
        else:
            self.message_user(request, said or f"{done}: {self.name_of(row)}", levels.SUCCESS)


def count_some(queryset: QuerySet[Any], *, most: int = MOST_COUNTED) -> int:
    """How many rows there are, counted no further than `most`."""
    return queryset.order_by()[:most].count()

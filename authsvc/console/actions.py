"""Actions of the console: buttons that call a service for each row, after a page with a form or a question.

The rows are ticked, or all of a filtered list. A list is worked on in batches of one request each, so that no request
takes long; the page between them starts the next batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar
from uuid import UUID

from django import forms
from django.contrib.admin import helpers
from django.contrib.messages import constants as levels
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from authsvc import audit
from authsvc.caller import Caller, caller_of
from authsvc.console import bulk_results, lists, operators
from authsvc.console.bulk_results import BulkResults
from authsvc.console.confirmation_form import ConfirmationForm
from authsvc.console.operators import actor_of
from authsvc.errors import ApiError
from authsvc.operator_access import Access

if TYPE_CHECKING:
    from authsvc.console.model_admin import OperatorAdmin

Value = TypeVar("Value")

MAX_ACTION_ROWS = 100
"""Ticked rows of an action, and rows of a batch."""
SELECT_ACROSS = "select_across"
"""Field that is 1 for an action on the whole list."""
SOURCE_ROW = "source_row"
"""Field with the key of the row from whose page an action was started."""
_CONFIRMED = "confirmed"
_RESULTS = "results"
_STOP = "stop"
_BATCH_SECONDS = 2.0
_PREFIX = "action"
_NO_ROWS = "No action taken: the selected rows no longer exist."


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """The actor, caller and time of an action, and its valid form."""

    actor: audit.Administrator
    caller: Caller
    at: datetime
    started_at: datetime
    """Time at which the operator started the action, before the first batch of a list."""
    form: Any = None
    count: int = 1
    """Rows of the action, those of other batches included."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Objects that a method keeps for the rows of one request."""
    session_id: UUID | None = None
    """The operator's session."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Cleaned values of the form; empty without a form."""
        return self.form.cleaned_data if self.form else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOnce:
    """A secret that an action created for the operator to pass on. It is shown on the page that follows, once."""

    label: str
    text: str = field(repr=False)
    hint: str = ""
    is_link: bool = False
    """True for a link that the operator opens in a new tab."""


class ActionMethod(Protocol):
    __name__: str

    def __call__(self, model_admin: Any, row: Any, context: ActionContext, /) -> str | ShownOnce | None:
        """Call one service for one row and return a message for the operator, or None. May raise ApiError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The rows of one request."""

    queryset: QuerySet[Any]
    rows: list[Any]
    """The first rows of `queryset`, at most `MAX_ACTION_ROWS`."""
    count: int
    """Rows of the action, those of other batches included."""
    results: BulkResults | None
    """Results of the earlier batches of a list; None for ticked rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """An action for rows of the list, and as a button on a row's page. Django's admin calls it with ticked rows.

    With a `confirmation`, a `form` or `costs` of the page, a confirmation page comes first.
    """

    method: ActionMethod
    """Called once per row. An ApiError is counted and shown, and the next row follows."""
    name: str
    label: str
    """The button's text."""
    success_message: str
    """Reported before the row's name or the number of rows, as in "Banned"."""
    confirmation: str = ""
    form: type[forms.Form] | None = None
    repeats_form: bool = False
    """True if a refusal by the service is shown with the form and what the operator has typed."""
    is_dangerous: bool = False
    asks_for_name: bool = False
    """The operator must type the row's name."""
    needs_reason: bool = False
    """The operator must state a reason."""
    for_one_row: bool = False
    access: Access = Access.ADMIN
    """Operators with less neither see the action nor can run it."""
    accepts_lists: bool = True
    """False if the action applies to ticked rows only."""
    do_not_call_in_templates: ClassVar = True

    @property
    def short_description(self) -> str:
        """The label, as Django's admin reads it."""
        return self.label

    def __call__(
        self, model_admin: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        operators.require(request, self.access)
        selection = self._select(model_admin, request, queryset)
        if selection is None:
            return None
        form = self._own_form(model_admin, request, selection.rows)
        confirmation_page = self._confirmation_page(model_admin, request, selection, form=form)
        if confirmation_page is not None:
            return confirmation_page
        rows, results = selection.rows, selection.results
        context = replace(create_context(request, form), count=selection.count)
        if results:
            context = replace(context, started_at=datetime.fromisoformat(results.until))
            return self._run_batch(model_admin, request, rows, results=results, context=context)
        secrets = self._run_rows(model_admin, request, rows, context=context)
        if form is not None and not form.is_valid():
            return self._confirmation_page(model_admin, request, selection, form=form)
        if not secrets:
            return None
        return form_page(
            model_admin,
            request,
            "operator/shown_once.html",
            title=self.label,
            secrets=secrets,
            has_link=any(secret.is_link for _name, secret in secrets),
            back_url=_back_url(model_admin, request, rows[0]),
        )

    def _select(self, model_admin: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> _Selection | None:
        """The rows to work on, or None after a message to the operator."""
        results = None
        if is_whole_list(request):
            if not self.accepts_lists:
                _refuse(model_admin, request, f"“{self.label}” applies to ticked rows only.")
                return None
            results = _start_or_continue(model_admin, request, queryset)
            if results is None:
                return None
            queryset = results.remaining(queryset)
            # Rows that have come to the list meanwhile are not among those that the operator has confirmed.
            limit = min(MAX_ACTION_ROWS, max(0, results.total - results.handled))
            rows = lists.read_first_rows(queryset, size=limit, limit=model_admin.max_list_rows)
        else:
            rows = list(queryset[:MAX_ACTION_ROWS])
        if not rows and not (results and results.after):
            model_admin.message_user(request, _NO_ROWS, levels.WARNING)
            return None
        count = results.total if results else len(rows)
        if self.for_one_row and count > 1:
            _refuse(model_admin, request, f"“{self.label}” applies to a single row only.")
            return None
        return _Selection(queryset=queryset, rows=rows, count=count, results=results)

    def _confirmation_page(
        self, model_admin: OperatorAdmin, request: HttpRequest, selection: _Selection, *, form: forms.Form | None
    ) -> HttpResponse | None:
        """The page with the form, the costs and the question; None if the operator has confirmed or need not."""
        rows, count, results = selection.rows, selection.count, selection.results
        is_confirmed = _CONFIRMED in request.POST
        name = _name_to_type(model_admin, rows, count=count) if self.asks_for_name else ""
        confirmation_form = ConfirmationForm(request, is_bound=is_confirmed, name=name, needs_reason=self.needs_reason)
        is_valid = [shown.is_valid() for shown in (form, confirmation_form) if shown is not None]
        costs: list[tuple[str, str]] = []
        if count > 1 and not is_confirmed:
            costs = lists.read_in_time(partial(model_admin.costs, request, self.name, selection.queryset))
        needs_page = self.confirmation or form or self.asks_for_name or self.needs_reason or costs
        if all(is_valid) or not (needs_page or (results and not is_confirmed)):
            return None
        return form_page(
            model_admin,
            request,
            "operator/confirm_action.html",
            title=self.label,
            form=form,
            confirmation_form=confirmation_form,
            action=self,
            rows=[] if results else [(row.pk, model_admin.display_name(row)) for row in rows],
            count=count,
            costs=costs,
            consequences=model_admin.consequences(self.name, rows),
            back_url=request.get_full_path() if results else _back_url(model_admin, request, rows[0]),
            source_row=request.POST.get(SOURCE_ROW, ""),
            checkbox=helpers.ACTION_CHECKBOX_NAME,
            results=results,
        )

    def _own_form(self, model_admin: OperatorAdmin, request: HttpRequest, rows: list[Any]) -> forms.Form | None:
        if self.form is None:
            return None
        data = request.POST if _CONFIRMED in request.POST else None
        return self.form(data, prefix=_PREFIX, initial=model_admin.initial_values(rows[0]) if rows else None)

    def _run_batch(
        self,
        model_admin: OperatorAdmin,
        request: HttpRequest,
        rows: list[Any],
        *,
        results: BulkResults,
        context: ActionContext,
    ) -> HttpResponse | None:
        """Run the action for the next rows of a list: the page that starts the next batch, or None after the last."""
        deadline = time.monotonic() + _BATCH_SECONDS
        is_last = _STOP in request.POST
        if not is_last:
            is_last = len(rows) < MAX_ACTION_ROWS
            for position, row in enumerate(rows, 1):
                self._run(model_admin, request, row, results=results, context=context)
                results.after = str(row.pk)
                if time.monotonic() > deadline:
                    is_last = is_last and position == len(rows)
                    break
        if is_last:
            self._report(model_admin, request, results)
            return None
        fields = [
            (name, text)
            for name, texts in request.POST.lists()
            if name not in (_RESULTS, "csrfmiddlewaretoken")
            for text in texts
        ]
        return form_page(
            model_admin,
            request,
            "operator/action_progress.html",
            title=self.label,
            results=results,
            fields=fields,
            action=self,
        )

    def _run_rows(
        self, model_admin: OperatorAdmin, request: HttpRequest, rows: list[Any], *, context: ActionContext
    ) -> list[tuple[str, ShownOnce]]:
        """Run the action for ticked rows, and report its results in one message; return names and secrets to show."""
        results = BulkResults(total=len(rows), until=context.at.isoformat())
        secrets = []
        for row in rows:
            result = self._run(model_admin, request, row, results=results, context=context)
            if isinstance(result, ShownOnce):
                secrets.append((model_admin.display_name(row), result))
                results.done -= 1
            elif result and len(rows) == 1:
                model_admin.message_user(request, result, levels.SUCCESS)
                return []
        if len(rows) == 1 and results.handled:
            name = model_admin.display_name(rows[0])
            reason = next(iter(results.refusals), "")
            if reason and self.repeats_form:
                context.form.add_error(None, reason)
                return []
            text = f"{name}: {reason}" if reason else f"{self.success_message}: {name}"
            model_admin.message_user(request, text, levels.ERROR if reason else levels.SUCCESS)
        elif results.handled:
            self._report(model_admin, request, results)
        return secrets

    def _report(self, model_admin: OperatorAdmin, request: HttpRequest, results: BulkResults) -> None:
        noun, plural = str(model_admin.opts.verbose_name), str(model_admin.opts.verbose_name_plural)
        level, text = results.message(self.success_message, noun=noun, plural=plural)
        left = results.total - results.handled
        if _STOP in request.POST and left > 0:
            text = f"{text}{'. ' if text else ''}Stopped: {left:,} {noun if left == 1 else plural} left"
            level = max(level, levels.WARNING)
        model_admin.message_user(request, text or _NO_ROWS, level)

    def _run(
        self,
        model_admin: OperatorAdmin,
        request: HttpRequest,
        row: Model,
        *,
        results: BulkResults,
        context: ActionContext,
    ) -> str | ShownOnce | None:
        """Call the method for one row, and count its result."""
        name = model_admin.display_name(row)
        if refusal := model_admin.find_refusal(request, row):
            results.add_refusal(refusal, name)
            return None
        try:
            result = self.method(model_admin, row, context)
        except ApiError as error:
            results.add_refusal(error.message, name)
            return None
        results.done += 1
        return result


def action(*, label: str, success_message: str, **options: Any) -> Callable[[ActionMethod], RowAction]:
    """Make a method of an `OperatorAdmin` an action. `options` are the further attributes of `RowAction`."""

    def decorate(method: ActionMethod) -> RowAction:
        return RowAction(method=method, name=method.__name__, label=label, success_message=success_message, **options)

    return decorate


def create_context(request: HttpRequest, form: forms.Form | None = None) -> ActionContext:
    """The actor, caller and present time of a request, with the valid form of the action."""
    at = timezone.now()
    return ActionContext(
        actor=actor_of(request),
        caller=caller_of(request),
        at=at,
        started_at=at,
        form=form,
        session_id=operators.operator_of(request).session_id,
    )


def submit(request: HttpRequest, form: forms.Form, change: Callable[[ActionContext], Value]) -> Value | None:
    """The result of `change`; None if the form is invalid or `change` refuses it. The form then has the error."""
    if not form.is_valid():
        return None
    try:
        return change(create_context(request, form))
    except ApiError as error:
        if error.status >= 500:
            raise
        form.add_error(None, error.message)
        return None


def form_page(
    model_admin: OperatorAdmin, request: HttpRequest, template: str, *, title: str, status: int = 200, **context: Any
) -> HttpResponse:
    """The page of `template`, which extends `operator/form.html`. Its links lead to the list, or to `back_url`."""
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": title,
        "confirmation_form": ConfirmationForm(request, is_bound=request.method == "POST"),
        "back_url": model_admin.list_url(),
        **context,
    }
    return TemplateResponse(request, template, context, status=status)


def is_whole_list(request: HttpRequest) -> bool:
    """True if the operator chose all rows of the list for an action."""
    # A browser without scripts sends the field twice; the last one is the checkbox.
    return request.POST.get(SELECT_ACROSS) == "1"


def _name_to_type(model_admin: OperatorAdmin, rows: list[Any], *, count: int) -> str:
    """The text that the operator types before a dangerous action."""
    return (
        model_admin.display_name(rows[0]) if count == 1 and rows else f"{count} {model_admin.opts.verbose_name_plural}"
    )


def _back_url(model_admin: OperatorAdmin, request: HttpRequest, row: Model) -> str:
    """The URL of the page from which an action was started: that of the row, or the list."""
    return model_admin.row_url(row) if request.POST.get(SOURCE_ROW) else model_admin.list_url()


def _start_or_continue(model_admin: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> BulkResults | None:
    """The results of the former batches of a list; None after a message if the list is too long."""
    if _RESULTS in request.POST:
        return bulk_results.read(request.POST[_RESULTS])
    total = lists.read_in_time(queryset.order_by()[: model_admin.max_list_rows + 1].count)
    if total > model_admin.max_list_rows:
        _refuse(
            model_admin,
            request,
            f"This list has more than {model_admin.max_list_rows:,} {model_admin.opts.verbose_name_plural},"
            " the most for one action. Narrow it by a filter or a search.",
        )
        return None
    return BulkResults(total=total, until=timezone.now().isoformat())


def _refuse(model_admin: OperatorAdmin, request: HttpRequest, reason: str) -> None:
    model_admin.message_user(request, f"{reason} No action taken.", levels.WARNING)

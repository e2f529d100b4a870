"""Actions of the console: buttons that call a service for each row, after a page with a form or a question.

The rows are ticked, or all of a filtered list. A list is worked on in batches of one request each, so that no request
takes long; the page between them starts the next batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from django import forms
from django.contrib.admin import helpers
from django.contrib.messages import constants as levels
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html

from authsvc import audit
from authsvc.caller import Caller, caller_of
from authsvc.console import bulk_results, operators
from authsvc.console.bulk_results import BulkResults
from authsvc.console.operators import Access, actor_of
from authsvc.errors import ApiError

if TYPE_CHECKING:
    from authsvc.console.model_admin import OperatorAdmin

MAX_ACTION_ROWS = 100
"""Ticked rows of an action, and rows of a batch."""
MAX_LIST_ROWS = 10_000
"""Rows of an action on a whole list."""
SELECT_ACROSS = "select_across"
"""Field that is 1 for an action on the whole list."""
SOURCE_ROW = "source_row"
"""Field with the key of the row from whose page an action was started."""
_CONFIRMED = "confirmed"
_RESULTS = "results"
_STOP = "stop"
_BATCH_SECONDS = 2.0
_PREFIX = "action"
_WRONG_NAME = "The typed text differs. No action taken."


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
    def __call__(self, page: Any, row: Any, context: ActionContext, /) -> str | ShownOnce | None:
        """Call one service for one row and return a message for the operator, or None. May raise ApiError."""


class ConfirmationForm(forms.Form):
    """The last fields of a page: the name of the row, where the operator must type it, and the reason.

    `actor_of` reads the reason again for the audit trail.
    """

    typed_name = forms.CharField(
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
        error_messages={"required": _WRONG_NAME},
    )
    reason = forms.CharField(
        max_length=operators.MAX_REASON_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "State the reason. No action taken."},
    )

    def __init__(self, request: HttpRequest, *, is_bound: bool, name: str = "", needs_reason: bool = False) -> None:
        """`name`: the text to type; empty for none."""
        data = {"typed_name": request.POST.get("typed_name", ""), "reason": operators.reason_of(request)}
        super().__init__(data if is_bound else None)
        self._name = name
        if name:
            self.fields["typed_name"].label = format_html("Type <strong>{}</strong> to confirm", name)
        else:
            del self.fields["typed_name"]
        self.fields["reason"].required = needs_reason
        self.fields["reason"].label = f"Reason ({'' if needs_reason else 'optional, '}for the audit trail)"

    def clean_typed_name(self) -> str:
        typed: str = self.cleaned_data["typed_name"]
        if typed.casefold() != self._name.strip().casefold():
            raise forms.ValidationError(_WRONG_NAME)
        return typed


def action(
    *,
    label: str,
    success_message: str,
    confirmation: str = "",
    form: type[forms.Form] | None = None,
    is_dangerous: bool = False,
    asks_for_name: bool = False,
    needs_reason: bool = False,
    for_one_row: bool = False,
    access: Access = Access.ADMIN,
    accepts_lists: bool = True,
) -> Callable[[ActionMethod], Callable[..., HttpResponse | None]]:
    """Make a method of an `OperatorAdmin` an action, for rows of the list and as a button on a row's page.

    `label` is the button's text. `success_message` is reported before the row's name or the number of rows, as in
    "Banned". With a `confirmation` text, a `form` or `costs` of the page, a confirmation page comes first;
    `asks_for_name` makes the operator type the row's name there, and `needs_reason` state a reason. The method is
    called once per row; an ApiError is counted and shown, and the next row follows. Operators with less than `access`
    neither see the action nor can run it. Without `accepts_lists` it applies to ticked rows only, and `for_one_row`
    to a single one.
    """

    def decorate(method: ActionMethod) -> Callable[..., HttpResponse | None]:
        @wraps(method)
        def run(page: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            operators.require(request, access)
            is_list = is_whole_list(request)
            if is_list and not accepts_lists:
                page.message_user(request, f"“{label}” applies to ticked rows only. No action taken.", levels.WARNING)
                return None
            results = _start_or_continue(page, request, queryset) if is_list else None
            if is_list and results is None:
                return None
            # Rows that have come to the list meanwhile are not among those that the operator has confirmed.
            limit = min(MAX_ACTION_ROWS, max(0, results.total - results.handled)) if results else MAX_ACTION_ROWS
            rows = list((results.remaining(queryset) if results else queryset)[:limit])
            if not rows and not (results and results.after):
                page.message_user(request, "No action taken: the selected rows no longer exist.", levels.WARNING)
                return None
            count = results.total if results else len(rows)
            if for_one_row and count > 1:
                page.message_user(request, f"“{label}” applies to a single row only. No action taken.", levels.WARNING)
                return None
            is_confirmed = _CONFIRMED in request.POST
            own_form = None
            if form:
                data = request.POST if is_confirmed else None
                own_form = form(data, prefix=_PREFIX, initial=page.initial_values(rows[0]) if rows else None)
            name = _name_to_type(page, rows, count=count) if asks_for_name else ""
            confirmation_form = ConfirmationForm(request, is_bound=is_confirmed, name=name, needs_reason=needs_reason)
            is_valid = [each.is_valid() for each in (own_form, confirmation_form) if each is not None]
            costs = None
            if count > 1 and not is_confirmed:
                all_rows = results.remaining(queryset) if results else queryset
                costs = page.costs(request, run.name, all_rows)  # type: ignore[attr-defined]  # set below
            needs_page = (
                confirmation or form or asks_for_name or needs_reason or costs or (is_list and not is_confirmed)
            )
            if needs_page and not all(is_valid):
                return form_page(
                    page,
                    request,
                    "operator/confirm_action.html",
                    title=label,
                    form=own_form,
                    confirmation_form=confirmation_form,
                    run=run,
                    rows=[] if is_list else [(row.pk, page.display_name(row)) for row in rows],
                    count=count,
                    costs=costs,
                    consequences=page.consequences(run.name, rows),  # type: ignore[attr-defined]  # set below
                    back_url=request.get_full_path() if is_list else _back_url(page, request, rows[0]),
                    source_row=request.POST.get(SOURCE_ROW, ""),
                    checkbox=helpers.ACTION_CHECKBOX_NAME,
                    results=results,
                )
            context = replace(create_context(request, own_form), count=count)
            if results:
                context = replace(context, started_at=datetime.fromisoformat(results.until))
            if results:
                return _run_batch(page, request, method, rows, results=results, context=context, run=run)
            secrets = _run_rows(page, request, method, rows, context=context, success_message=success_message)
            if not secrets:
                return None
            back_url = _back_url(page, request, rows[0])
            return form_page(
                page,
                request,
                "operator/shown_once.html",
                title=label,
                secrets=secrets,
                has_link=any(secret.is_link for _name, secret in secrets),
                back_url=back_url,
            )

        # Attributes that Django's admin and the templates read; functions have no such attributes for mypy.
        run.name = run.__name__  # type: ignore[attr-defined]
        run.do_not_call_in_templates = True  # type: ignore[attr-defined]
        run.short_description = run.label = label  # type: ignore[attr-defined]
        run.confirmation, run.is_dangerous, run.access = confirmation, is_dangerous, access  # type: ignore[attr-defined]
        run.success_message = success_message  # type: ignore[attr-defined]
        return run

    return decorate


def create_context(request: HttpRequest, form: forms.Form | None = None) -> ActionContext:
    at = timezone.now()
    return ActionContext(
        actor=actor_of(request),
        caller=caller_of(request),
        at=at,
        started_at=at,
        form=form,
        session_id=operators.operator_of(request).session_id,
    )


def form_page(
    page: OperatorAdmin, request: HttpRequest, template: str, *, title: str, status: int = 200, **context: Any
) -> HttpResponse:
    """The page of `template`, which extends `operator/form.html`. Its links lead to the list, or to `back_url`."""
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "title": title,
        "confirmation_form": ConfirmationForm(request, is_bound=request.method == "POST"),
        "back_url": page.list_url(),
        **context,
    }
    return TemplateResponse(request, template, context, status=status)


def is_whole_list(request: HttpRequest) -> bool:
    """True if the operator chose all rows of the list for an action."""
    # A browser without scripts sends the field twice; the last one is the checkbox.
    return request.POST.get(SELECT_ACROSS) == "1"


def _name_to_type(page: OperatorAdmin, rows: list[Any], *, count: int) -> str:
    """The text that the operator types before a dangerous action."""
    return page.display_name(rows[0]) if count == 1 and rows else f"{count} {page.opts.verbose_name_plural}"


def _back_url(page: OperatorAdmin, request: HttpRequest, row: Model) -> str:
    """The URL of the page from which an action was started: that of the row, or the list."""
    return page.row_url(row) if request.POST.get(SOURCE_ROW) else page.list_url()


def _start_or_continue(page: OperatorAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> BulkResults | None:
    """The results of the former batches of a list; None after a message if the list is too long."""
    if _RESULTS in request.POST:
        return bulk_results.read(request.POST[_RESULTS])
    total = queryset.order_by()[: MAX_LIST_ROWS + 1].count()
    if total > MAX_LIST_ROWS:
        page.message_user(
            request,
            f"This list has more than {MAX_LIST_ROWS:,} {page.opts.verbose_name_plural}, the most for one action."
            " Narrow it by a filter or a search. No action taken.",
            levels.WARNING,
        )
        return None
    return BulkResults(total=total, until=timezone.now().isoformat())


def _run_batch(
    page: OperatorAdmin,
    request: HttpRequest,
    method: ActionMethod,
    rows: list[Any],
    *,
    results: BulkResults,
    context: ActionContext,
    run: Any,
) -> HttpResponse | None:
    """Run an action for the next rows of a list: the page that starts the following batch, or None after the last."""
    deadline = time.monotonic() + _BATCH_SECONDS
    is_last = _STOP in request.POST
    if not is_last:
        is_last = len(rows) < MAX_ACTION_ROWS
        for position, row in enumerate(rows, 1):
            _run(page, request, partial(method, page, row, context), row=row, results=results)
            results.after = str(row.pk)
            if time.monotonic() > deadline:
                is_last = is_last and position == len(rows)
                break
    if is_last:
        _report(page, request, results, success_message=run.success_message)
        return None
    fields = [
        (name, text)
        for name, texts in request.POST.lists()
        if name not in (_RESULTS, "csrfmiddlewaretoken")
        for text in texts
    ]
    return form_page(
        page, request, "operator/action_progress.html", title=run.label, results=results, fields=fields, run=run
    )


def _run_rows(
    page: OperatorAdmin,
    request: HttpRequest,
    method: ActionMethod,
    rows: list[Any],
    *,
    context: ActionContext,
    success_message: str,
) -> list[tuple[str, ShownOnce]]:
    """Run an action for ticked rows, and report its results in one message; return names and secrets to show."""
    results = BulkResults(total=len(rows), until=context.at.isoformat())
    secrets = []
    for row in rows:
        result = _run(page, request, partial(method, page, row, context), row=row, results=results)
        if isinstance(result, ShownOnce):
            secrets.append((page.display_name(row), result))
            results.done -= 1
        elif result and len(rows) == 1:
            page.message_user(request, result, levels.SUCCESS)
            return []
    if len(rows) == 1 and results.handled:
        name = page.display_name(rows[0])
        reason = next(iter(results.refusals), "")
        text = f"{name}: {reason}" if reason else f"{success_message}: {name}"
        page.message_user(request, text, levels.ERROR if reason else levels.SUCCESS)
    elif results.handled:
        _report(page, request, results, success_message=success_message)
    return secrets


def _report(page: OperatorAdmin, request: HttpRequest, results: BulkResults, *, success_message: str) -> None:
    noun, plural = str(page.opts.verbose_name), str(page.opts.verbose_name_plural)
    level, text = results.message(success_message, noun=noun, plural=plural)
    left = results.total - results.handled
    if _STOP in request.POST and left > 0:
        text = f"{text}{'. ' if text else ''}Stopped: {left:,} {noun if left == 1 else plural} left"
        level = max(level, levels.WARNING)
    page.message_user(request, text or "No action taken: the selected rows no longer exist.", level)


def _run(
    page: OperatorAdmin,
    request: HttpRequest,
    call: Callable[[], str | ShownOnce | None],
    *,
    row: Model,
    results: BulkResults,
) -> str | ShownOnce | None:
    """Run an action for one row, and count its result."""
    name = page.display_name(row)
    if refusal := page.find_refusal(request, row):
        results.add_refusal(refusal, name)
        return None
    try:
        result = call()
    except ApiError as error:
        results.add_refusal(error.message, name)
        return None
    results.done += 1
    return result

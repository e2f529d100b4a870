"""Actions of the console: buttons that call a service for each ticked row, after a page with a form or a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol

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
from authsvc.console import operators
from authsvc.console.operators import Access, actor_of
from authsvc.errors import ApiError

if TYPE_CHECKING:
    from authsvc.console.model_admin import OperatorAdmin

MAX_ACTION_ROWS = 100
SOURCE_ROW = "source_row"
"""Field with the key of the row from whose page an action was started."""
_CONFIRMED = "confirmed"
_PREFIX = "action"
_WRONG_NAME = "The typed text differs. No action taken."


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """The actor, caller and time of an action, and its valid form."""

    actor: audit.Administrator
    caller: Caller
    at: datetime
    form: Any = None

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
            operators.require(request, access)
            rows = list(queryset[:MAX_ACTION_ROWS])
            if not rows:
                page.message_user(request, "No action taken: the selected rows no longer exist.", levels.WARNING)
                return None
            is_confirmed = _CONFIRMED in request.POST
            own_form = None
            if form:
                data = request.POST if is_confirmed else None
                own_form = form(data, prefix=_PREFIX, initial=page.initial_values(rows[0]))
            name = _name_to_type(page, rows) if asks_for_name else ""
            confirmation_form = ConfirmationForm(request, is_bound=is_confirmed, name=name, needs_reason=needs_reason)
            is_valid = [each.is_valid() for each in (own_form, confirmation_form) if each is not None]
            if (confirmation or form or asks_for_name or needs_reason) and not all(is_valid):
                return form_page(
                    page,
                    request,
                    "operator/confirm_action.html",
                    title=label,
                    form=own_form,
                    confirmation_form=confirmation_form,
                    run=run,
                    rows=[(row.pk, page.display_name(row)) for row in rows],
                    consequences=page.consequences(run.name, rows),  # type: ignore[attr-defined]  # set below
                    back_url=_back_url(page, request, rows[0]),
                    source_row=request.POST.get(SOURCE_ROW, ""),
                    checkbox=helpers.ACTION_CHECKBOX_NAME,
                )
            context = create_context(request, own_form)
            secrets = []
            for row in rows:
                call = partial(method, page, row, context)
                if secret := _run(page, request, call, row=row, success_message=success_message):
                    secrets.append((page.display_name(row), secret))
            if not secrets:
                return None
            back_url = _back_url(page, request, rows[0])
            return form_page(page, request, "operator/shown_once.html", title=label, secrets=secrets, back_url=back_url)

        # Attributes that Django's admin and the templates read; functions have no such attributes for mypy.
        run.name = run.__name__  # type: ignore[attr-defined]
        run.do_not_call_in_templates = True  # type: ignore[attr-defined]
        run.short_description = run.label = label  # type: ignore[attr-defined]
        run.confirmation, run.is_dangerous, run.access = confirmation, is_dangerous, access  # type: ignore[attr-defined]
        return run

    return decorate


def create_context(request: HttpRequest, form: forms.Form | None = None) -> ActionContext:
    return ActionContext(actor=actor_of(request), caller=caller_of(request), at=timezone.now(), form=form)


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


def _name_to_type(page: OperatorAdmin, rows: list[Any]) -> str:
    """The text that the operator types before a dangerous action."""
    return page.display_name(rows[0]) if len(rows) == 1 else f"{len(rows)} {page.opts.verbose_name_plural}"


def _back_url(page: OperatorAdmin, request: HttpRequest, row: Model) -> str:
    """The URL of the page from which an action was started: that of the row, or the list."""
    return page.row_url(row) if request.POST.get(SOURCE_ROW) else page.list_url()


def _run(
    page: OperatorAdmin,
    request: HttpRequest,
    call: Callable[[], str | ShownOnce | None],
    *,
    row: Model,
    success_message: str,
) -> ShownOnce | None:
    """Run an action for one row and report its result; return a secret instead of reporting it."""
    name = page.display_name(row)
    if refusal := page.find_refusal(request, row):
        page.message_user(request, f"{name}: {refusal}", levels.ERROR)
        return None
    try:
        result = call()
    except ApiError as error:
        page.message_user(request, f"{name}: {error.message}", levels.ERROR)
        return None
    if isinstance(result, ShownOnce):
        return result
    page.message_user(request, result or f"{success_message}: {name}", levels.SUCCESS)
    return None

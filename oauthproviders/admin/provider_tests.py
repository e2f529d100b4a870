"""Shows the steps of a provider's test."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from authsvc.console import formatting
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.user_panels import Panel, PanelRow
from authsvc.diagnostics.registry import CheckOutcome
from authsvc.display_text import EMPTY
from oauthproviders.provider_checks import Step

_BADGES = {
    CheckOutcome.OK: ("passed", Tone.GOOD),
    CheckOutcome.WARNING: ("warning", Tone.WAITING),
    CheckOutcome.FAILURE: ("failed", Tone.BAD),
    CheckOutcome.UNUSED: ("not run", Tone.QUIET),
}


def result_panel(steps: Sequence[Step]) -> Panel:
    """The steps with result, explanation, remedy and time taken."""
    outcomes = [step.result.outcome for step in steps]
    failed, warned = outcomes.count(CheckOutcome.FAILURE), outcomes.count(CheckOutcome.WARNING)
    title = "Test passed"
    if failed:
        title = f"Test failed: {failed} {'step' if failed == 1 else 'steps'}"
    elif warned:
        title = f"Test passed with {warned} {'warning' if warned == 1 else 'warnings'}"
    rows = [PanelRow(cells=(step.result.subject, _badge(step), _text(step), _seconds(step))) for step in steps]
    return Panel(title=title, columns=("Step", "Result", "Details", "Time"), rows=rows, empty_text="", position=0)


def result_page(
    model_admin: OperatorAdmin, request: HttpRequest, steps: Sequence[Step], *, name: str, back_url: str
) -> HttpResponse:
    """The page with the result; its URL is that of the test."""
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": f"Test of {name}",
        "name": name,
        "panels": [result_panel(steps)],
        "back_url": back_url,
    }
    return TemplateResponse(request, "operator/provider_test.html", context)


def _badge(step: Step) -> SafeString:
    return formatting.badge(*_BADGES[step.result.outcome])


def _text(step: Step) -> SafeString:
    message = formatting.long_text(step.result.message)
    if not step.result.remedy:
        return message
    return format_html('{}<p class="remedy">{}</p>', message, step.result.remedy)


def _seconds(step: Step) -> str:
    return EMPTY if step.seconds is None else f"{step.seconds * 1000:,.0f} ms"

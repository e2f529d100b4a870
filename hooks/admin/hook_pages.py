"""The page of the seven hooks: their state and settings, without secrets."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from authsvc import conf
from authsvc.conf.sections.hooks import Hook, HookSettings
from authsvc.conf.value_types import DURATION
from authsvc.console import formatting
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.user_panels import Panel, PanelRow
from authsvc.display_text import EMPTY, short_text
from hooks import settings

_TITLE = "Hooks"
_COLUMNS = ("Hook", "State", "Transport", "Target", "Secrets", "If it fails", "Time limit", "Called")
_TRANSPORTS = {"http": "HTTP", "pg-functions": "database function", "python": "Python function"}


def urls(model_admin: OperatorAdmin) -> list[URLPattern]:
    return [path("hooks/", model_admin.admin_site.admin_view(partial(show_hooks, model_admin)), name="hooks")]


def link() -> tuple[str, str]:
    return _TITLE, reverse("admin:hooks")


def show_hooks(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    rows = [_row(hook, settings.get(hook)) for hook in Hook]
    panel = Panel(title="Requests that ask other programs", columns=_COLUMNS, rows=rows, empty_text="", position=0)
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "back_url": model_admin.list_url(),
        "title": _TITLE,
        "panels": [panel],
    }
    return TemplateResponse(request, "operator/hooks.html", context)


def _row(hook: Hook, config: HookSettings) -> PanelRow:
    is_http = config.transport == "http"
    return PanelRow(
        cells=(
            formatting.code(hook.name),
            _state(config),
            _TRANSPORTS.get(config.transport, EMPTY),
            _target(config.uri),
            len(config.secrets) if is_http else EMPTY,
            ("the request goes on" if config.on_failure == "open" else "the request fails") if config.uri else EMPTY,
            DURATION.format(config.time_limit) if config.uri else EMPTY,
            _call(hook) if config.uri else EMPTY,
        )
    )


def _state(config: HookSettings) -> SafeString:
    if not config.enabled:
        return formatting.badge("disabled", Tone.QUIET)
    if config.transport == "http" and not config.secrets:
        return formatting.badge("enabled, not signed", Tone.WAITING)
    return formatting.badge("enabled", Tone.GOOD)


def _target(uri: str) -> str:
    """A URI without a user name, password and query, where some receivers expect keys."""
    if not uri or uri.startswith("python:"):
        return short_text(uri)
    parts = urlsplit(uri)
    query = "?…" if parts.query else ""
    return short_text(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}")


def _call(hook: Hook) -> str:
    calls = conf.current().hook_calls
    delivery = {
        Hook.SEND_EMAIL: calls.send_email_delivery,
        Hook.SEND_SMS: calls.send_sms_delivery,
    }.get(hook, "inline")
    return "by a job after the request" if delivery == "queued" else "in the request"

"""Small HTML pages for browsers at addresses where clients of the API get JSON: the start page and "not found"."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from authsvc import conf
from authsvc.api import exception_handler
from authsvc.api.renderers import NO_STORE

_MAX_ACCEPT_LENGTH = 1_000
"""Longer headers than those of browsers are not parsed, which can take 50 times as long as the rest."""
_POLICY = "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def prefers_html(request: HttpRequest, *, methods: Collection[str] = ("GET", "HEAD")) -> bool:
    """True for a request whose Accept header ranks HTML above JSON (RFC 9110 §12.5.1), as that of a browser."""
    if request.method not in methods:
        return False
    if len(request.headers.get("Accept", "")) > _MAX_ACCEPT_LENGTH:
        return False
    html, json = request.accepted_type("text/html"), request.accepted_type("application/json")
    return html is not None and (json is None or html.quality > json.quality)


def start_page() -> HttpResponse:
    """The page at `/`: in development links and first commands, otherwise one sentence."""
    config = conf.current()
    if not config.mailer.dev_inbox_enabled:
        return _render("service/start.html", status=200)
    context = {
        # The commands quote it with apostrophes.
        "base_url": config.api.external_url.replace("'", "%27"),
        "has_console": config.console.enabled,
        "has_account": config.pages.enabled,
        "sends_confirmation": not config.mailer.autoconfirm,
    }
    return _render("service/development.html", status=200, **context)


def not_found(request: HttpRequest) -> HttpResponse:
    """The response to an unknown address: a page for browsers, JSON for clients of the API."""
    response = exception_handler.error_response(Http404(), request)  # sets the members of the access log
    return _render("service/not_found.html", status=404) if prefers_html(request) else response


def _render(template: str, *, status: int, **context: Any) -> HttpResponse:
    style, policy = _style()
    config = conf.current()
    values = {
        "style": mark_safe(style),  # noqa: S308  (ours)
        "site_url": config.site.url,
        "is_development": config.mailer.dev_inbox_enabled,
    }
    headers = {
        "Cache-Control": NO_STORE,
        "Content-Security-Policy": policy,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept",
        "X-Robots-Tag": "noindex",
    }
    return HttpResponse(render_to_string(template, {**values, **context}), status=status, headers=headers)


@cache
def _style() -> tuple[str, str]:
    """The style sheet, and the Content-Security-Policy that permits it alone."""
    style = (Path(settings.BASE_DIR) / "templates" / "service" / "style.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return style, _POLICY.format(digest=digest)

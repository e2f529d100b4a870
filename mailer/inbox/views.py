"""Development only: the pages of the inbox, which respond with 404 unless the inbox is enabled."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.html import escape
from django.views.decorators.http import require_safe

from authsvc import conf
from authsvc.errors import ServiceBusy
from authsvc.jobs import queued_jobs
from authsvc.outgoing import bulkhead
from mailer.inbox import previews, storage
from mailer.rendering import message_types, template_sources

_PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# The script of the list loads new messages.
_LIST_POLICY = f"{_PAGE_POLICY}; script-src 'self'; connect-src 'self'"
# Links of the message may open outside of the frame, as in a mail reader. Everything else is forbidden.
_MESSAGE_POLICY = (
    "sandbox allow-top-navigation-by-user-activation; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
)
# A template may reference images of its site, which a mail reader would load.
_PREVIEW_POLICY = f"{_MESSAGE_POLICY} https: http:"
_DELIVERY_TASK = "mailer.deliver"
_DELIVERY_SECONDS = 5.0
"""Longest wait for the worker."""
_POLL_SECONDS = 0.05
_OPEN_LINKS_IN_TOP_FRAME = '<base target="_top">'

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def _is_own_host(request: HttpRequest) -> bool:
    """True if the browser reached the inbox under an IP address, `localhost`, or the host of API_EXTERNAL_URL.

    A site that resolves its own name to the address of this machine (DNS rebinding) could otherwise read the messages.
    """
    try:
        host = urlsplit(f"//{request.META.get('HTTP_HOST', '')}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(host)
    except ValueError:
        own = {"localhost", urlsplit(conf.current().api.external_url).hostname}
        return host in own or host.endswith(".localhost")
    return True


def _development_only(view: View[P]) -> View[P]:
    """Answer 404 if the inbox is disabled and to other sites; keep messages out of caches and referrers."""

    @require_safe
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        # Only scripts of other sites send Origin with a GET, and the API's CORS headers would let them read it.
        if not conf.current().mailer.dev_inbox_enabled or "Origin" in request.headers:
            raise Http404("the inbox is disabled")
        if not _is_own_host(request):
            raise Http404("the inbox has another host")
        response = view(request, *args, **kwargs)
        response.headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Referrer-Policy"] = "no-referrer"  # the URL of a followed link contains a token
        return response

    return guarded


@_development_only
def list_messages(request: HttpRequest) -> HttpResponse:
    response = render(request, "mailer/inbox/list.html", {"messages": storage.list_messages()})
    response.headers["Content-Security-Policy"] = _LIST_POLICY
    return response


@_development_only
def show_message(request: HttpRequest, inbox_id: str) -> HttpResponse:
    return render(request, "mailer/inbox/message.html", {"message": _get_message(inbox_id)})


@_development_only
def show_body(request: HttpRequest, inbox_id: str) -> HttpResponse:
    """The unchanged HTML of a message, for the sandboxed frame on its page."""
    return _render_framed(_get_message(inbox_id).html, policy=_MESSAGE_POLICY)


@_development_only
def list_previews(request: HttpRequest) -> HttpResponse:
    types = [
        {"key": key, "url": template_sources.template_config(type).url, "enabled": message_types.is_enabled(type)}
        for key, type in previews.EMAIL_TYPES.items()
    ]
    return render(request, "mailer/inbox/previews.html", {"types": types})


@_development_only
def show_preview(request: HttpRequest, key: str) -> HttpResponse:
    return render(request, "mailer/inbox/preview.html", {"preview": _preview(key)})


@_development_only
def show_preview_body(request: HttpRequest, key: str) -> HttpResponse:
    preview = _preview(key)
    problem = f"<p><strong>{escape(preview.problem)}</strong></p>" if preview.problem else ""
    return _render_framed(problem + preview.html, policy=_PREVIEW_POLICY)


@_development_only
def list_as_json(request: HttpRequest) -> HttpResponse:
    """`[{"id", "channel", "to", "subject", "code", "link", "text", "html", "message_id", "kept_at"}]`, newest first.

    Waits until the worker has delivered the queued messages, so that a script finds the message of its last request.
    """
    deadline = time.monotonic() + _DELIVERY_SECONDS
    while queued_jobs.has_due_jobs(_DELIVERY_TASK) and time.monotonic() < deadline:
        try:
            with bulkhead.wait_for("inbox"):  # other requests use the slot meanwhile
                time.sleep(_POLL_SECONDS)
        except ServiceBusy:
            break
    return JsonResponse([_as_json(message) for message in storage.list_messages()], safe=False)


@_development_only
def script(request: HttpRequest) -> HttpResponse:
    return render(request, "mailer/inbox/script.js", content_type="text/javascript; charset=utf-8")


@_development_only
def style_sheet(request: HttpRequest) -> HttpResponse:
    return render(request, "mailer/inbox/style.css", content_type="text/css; charset=utf-8")


def _render_framed(html: str, *, policy: str) -> HttpResponse:
    headers = {"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"}
    return HttpResponse(_OPEN_LINKS_IN_TOP_FRAME + html, headers=headers)


def _preview(key: str) -> previews.Preview:
    if key not in previews.EMAIL_TYPES:
        raise Http404("unknown email type")
    return previews.render_preview(key)


def _get_message(inbox_id: str) -> storage.InboxMessage:
    message = storage.get_message(inbox_id)
    if message is None:
        raise Http404("no such message")
    return message


def _as_json(message: storage.InboxMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "channel": message.channel,
        "to": message.to,
        "subject": message.subject,
        "code": message.code,
        "link": message.link,
        "text": message.text,
        "html": message.html,
        "message_id": message.message_id,
        "kept_at": message.received_at.isoformat(),
    }

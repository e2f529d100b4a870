"""Development only: the pages of the inbox; while it is off none of them exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.html import escape
from django.views.decorators.http import require_safe

from authsvc import conf
from mailer.inbox import previews, storage
from mailer.rendering import message_types, template_sources

_PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# A link of the letter leaves the frame, as it would leave a mail reader; the letter can do nothing else.
_LETTER_POLICY = (
    "sandbox allow-top-navigation-by-user-activation; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
)
# A template may name pictures of its site, which a mail reader would load.
_PREVIEW_POLICY = f"{_LETTER_POLICY} https: http:"
_LINKS_LEAVE_THE_FRAME = '<base target="_top">'

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def _development_only(view: View[P]) -> View[P]:
    """Answers 404 while the inbox is off and to other sites; keeps letters out of caches and referrers."""

    @require_safe
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        # Only a script of another site sends an origin with a GET, and the API's CORS answer would let it read.
        if not conf.current().mailer.dev_inbox_enabled or "Origin" in request.headers:
            raise Http404("there is no inbox")
        response = view(request, *args, **kwargs)
        response.headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Referrer-Policy"] = "no-referrer"  # the address that follows a link holds a token
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return guarded


@_development_only
def list_letters(request: HttpRequest) -> HttpResponse:
    return render(request, "mailer/inbox/list.html", {"letters": storage.letters()})


@_development_only
def show_letter(request: HttpRequest, letter_id: str) -> HttpResponse:
    return render(request, "mailer/inbox/letter.html", {"letter": _letter(letter_id)})


@_development_only
def show_body(request: HttpRequest, letter_id: str) -> HttpResponse:
    """The HTML of a letter as it is: for the frame on its page, which lets it do nothing."""
    return _framed(_letter(letter_id).html, policy=_LETTER_POLICY)


@_development_only
def list_previews(request: HttpRequest) -> HttpResponse:
    kinds = [
        {"key": key, "url": template_sources.origin(kind).url, "enabled": message_types.is_enabled(kind)}
        for key, kind in previews.KINDS.items()
    ]
    return render(request, "mailer/inbox/previews.html", {"kinds": kinds})


@_development_only
def show_preview(request: HttpRequest, key: str) -> HttpResponse:
    return render(request, "mailer/inbox/preview.html", {"preview": _preview(key)})


@_development_only
def show_preview_body(request: HttpRequest, key: str) -> HttpResponse:
    preview = _preview(key)
    problem = f"<p><strong>{escape(preview.problem)}</strong></p>" if preview.problem else ""
    return _framed(problem + preview.html, policy=_PREVIEW_POLICY)


@_development_only
def list_as_json(request: HttpRequest) -> HttpResponse:
    """`[{"id", "channel", "to", "subject", "code", "link", "text", "html", "message_id", "kept_at"}]`, newest first."""
    return JsonResponse([_described(letter) for letter in storage.letters()], safe=False)


@_development_only
def style_sheet(request: HttpRequest) -> HttpResponse:
    return render(request, "mailer/inbox/style.css", content_type="text/css; charset=utf-8")


def _framed(html: str, *, policy: str) -> HttpResponse:
    headers = {"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"}
    return HttpResponse(_LINKS_LEAVE_THE_FRAME + html, headers=headers)


def _preview(key: str) -> previews.Preview:
    if key not in previews.KINDS:
        raise Http404("no such kind of mail")
    return previews.of(key)


def _letter(letter_id: str) -> storage.Letter:
    letter = storage.letter(letter_id)
    if letter is None:
        raise Http404("no such letter")
    return letter


def _described(letter: storage.Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "channel": letter.channel,
        "to": letter.to,
        "subject": letter.subject,
        "code": letter.code,
        "link": letter.link,
        "text": letter.text,
        "html": letter.html,
        "message_id": letter.message_id,
        "kept_at": letter.kept_at.isoformat(),
    }

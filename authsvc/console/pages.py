"""Standalone console pages (errors and sign-in), CSRF protection, captchas, and the redirect after sign-in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators import csrf

from authsvc import conf
from authsvc.api import captcha, exception_handler
from authsvc.errors import ApiError
from authsvc.security import redirects

_NOT_FOUND = "This page does not exist. Its row may have been deleted."
_FORBIDDEN = "Your role does not permit this, or the page is read-only."
_INVALID = "The address or the form asks for an option that does not exist."
_FORM_ONLY = "This address only receives a form. Go back to the page with the form."
_EXPIRED = (
    "The form has expired, or another site has sent it. No action taken. Open the page again, and repeat your input. If"
    " that does not help, permit cookies for this site."
)

View = Callable[..., HttpResponse]


def csrf_protected(view: View) -> View:
    """Django's CSRF protection, created for each request so that a reload of CSRF_TRUSTED_ORIGINS takes effect."""

    @functools.wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return csrf.csrf_protect(view)(request, *args, **kwargs)

    return respond


def content_policy(*, captcha_origins: str = "") -> str:
    """The Content-Security-Policy of a page; `captcha_origins` are further sources of scripts, frames and styles."""
    sources = f"'self' {captcha_origins}".rstrip()
    frames = f" frame-src {captcha_origins};" if captcha_origins else ""
    return (
        f"default-src 'none'; script-src {sources}; style-src {sources}; img-src 'self'; connect-src {sources};{frames}"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def error_page(request: HttpRequest, error: Exception) -> HttpResponse:
    """The page for an exception. Unexpected ones are logged, and the page shows the request id only."""
    match error:
        case Http404():
            return _page(request, 404, "Not found", _NOT_FOUND)
        case PermissionDenied():
            return _page(request, 403, "Forbidden", _FORBIDDEN)
        case SuspiciousOperation() | BadRequest() | MultiPartParserError() | ValidationError():
            return _page(request, 400, "Bad request", _INVALID)
        case ApiError() if error.status < 500:
            return _page(request, error.status, "Request failed", error.message)
    api_error = exception_handler.to_api_error(error)
    request.META["authsvc.error_code"] = api_error.error_code
    request_id = request.META.get("authsvc.request_id")
    hint = f" See the log for request {request_id}." if request_id else " See the log."
    return _page(request, api_error.status, "Error", api_error.message + hint)


def form_only_page(request: HttpRequest, response: HttpResponseNotAllowed) -> HttpResponse:
    """The page instead of the empty response to another method than that of the form."""
    page = _page(request, response.status_code, "Not a page", _FORM_ONLY)
    page.headers["Allow"] = response.headers["Allow"]
    return page


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's view for a form without a valid CSRF token (CSRF_FAILURE_VIEW)."""
    return _page(request, 403, "Form expired", _EXPIRED, retry_path=_permitted_path(_referring_page(request)))


def _page(request: HttpRequest, status: int, title: str, text: str, **context: str) -> HttpResponse:
    return render_standalone(request, "operator/error.html", status=status, title=title, text=text, **context)


def render_standalone(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
    """A page without navigation, which runs no database query."""
    site = {"site_title": admin.site.site_title, "site_header": admin.site.site_header}
    return render(request, template, {**site, **context}, status=status)


def render_with_captcha(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
    """As `render_standalone`, for a page whose form includes `operator/captcha.html`."""
    widget, site_key = captcha.widget(), conf.current().captcha.site_key
    page = render_standalone(request, template, status=status, captcha=widget, site_key=site_key, **context)
    if widget and site_key:
        page.headers["Content-Security-Policy"] = content_policy(captcha_origins=widget.origins)
    return page


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the sign-in, which leads back to the page of the request: for a form, the one that contains it."""
    page = request.get_full_path() if request.method in ("GET", "HEAD") else _referring_page(request)
    return HttpResponseRedirect(f"{reverse('admin:login')}?{urlencode({'next': page}, safe='/')}")


def _referring_page(request: HttpRequest) -> str:
    try:
        url = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return reverse("admin:index")
    return f"{url.path}?{url.query}" if url.query else url.path


def next_url(request: HttpRequest) -> str:
    """The console page requested before the sign-in, or the dashboard."""
    return _permitted_path(request.POST.get("next") or request.GET.get("next") or "")


def _permitted_path(text: str) -> str:
    """The path of a console page as a browser resolves it; that of the dashboard for any other text."""
    start = reverse("admin:index")
    path = redirects.own_path(text)
    return path if path.startswith(start) else start

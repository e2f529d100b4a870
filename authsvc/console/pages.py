"""The console's pages that stand alone: for what went wrong, and for who is not in yet."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from authsvc.api import exception_handler
from authsvc.errors import ApiError

_UNKNOWN = "There is no such page. What it showed may have been deleted."
_FORBIDDEN = "Nothing can be changed here."
_EXPIRED = "The form was too old, or it came from another site. Nothing was done: go back, reload the page, try again."


def refusal(request: HttpRequest, error: Exception) -> HttpResponse:
    """A page for any exception; what nobody expected is logged and its page names the request only."""
    match error:
        case Http404():
            return _page(request, 404, "Not found", _UNKNOWN)
        case PermissionDenied():
            return _page(request, 403, "Not possible", _FORBIDDEN)
        case SuspiciousOperation() | BadRequest() | ValidationError():
            return _page(request, 400, "Not understood", "This address or form asks for something that is not offered.")
        case ApiError() if error.status < 500:
            return _page(request, error.status, "Refused", error.message)
    known = exception_handler.to_api_error(error)
    request.META["authsvc.error_code"] = known.error_code
    request_id = request.META.get("authsvc.request_id")
    where = f" The log has more, under request {request_id}." if request_id else " The log has more."
    return _page(request, known.status, "That went wrong", known.message + where)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's view for a form without a valid token against forgery (CSRF_FAILURE_VIEW)."""
    return _page(request, 403, "Form expired", _EXPIRED)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    return alone(request, "operator/refusal.html", status=status, title=title, text=text)


def alone(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
    """A page without lists around it, which asks the database nothing."""
    site = {"site_title": admin.site.site_title, "site_header": admin.site.site_header}
    return render(request, template, {**site, **context}, status=status)


def wanted(request: HttpRequest) -> str:
    """The page that was asked for before the sign-in, when it is one of the console; else the start page."""
    asked = request.POST.get("next") or request.GET.get("next") or ""
    start = reverse("admin:index")
    is_ours = asked.startswith(start) and url_has_allowed_host_and_scheme(asked, allowed_hosts=None)
    return asked if is_ours else start


def refused(request: HttpRequest, page: HttpResponse, error: ApiError) -> HttpResponse:
    """A page that tells of a refusal, marked as one for the log and for clients that read headers."""
    request.META["authsvc.error_code"] = error.error_code
    if error.retry_after is not None:
        page["Retry-After"] = str(int(error.retry_after + 0.999))
    return page

"""Access to the account pages, and their layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authsvc.api.exception_handler import with_error
from authsvc.console import pages
from authsvc.console.operators import Operator
from authsvc.console.sign_in import console_session
from authsvc.errors import ApiError

AccountView = Callable[..., HttpResponse]
"""Takes the request, the operator's sign-in, and the arguments of the route."""


def account_view(view: AccountView, *, serves_enrolment: bool = False) -> Callable[..., HttpResponse]:
    """Require a complete sign-in, or with `serves_enrolment` one that lacks only the enrolment of a factor.

    An ApiError of the view, such as for a row that another tab has removed, becomes a message on the account page.
    """

    @require_http_methods(["GET", "HEAD", "POST"])
    @pages.csrf_protected
    @wraps(view)
    def respond(request: HttpRequest, **arguments: Any) -> HttpResponse:
        current = console_session.signed_in(request)
        step = console_session.next_step(current) if current else "admin:login"
        if current is None or (step and not (serves_enrolment and step == "admin:account")):
            return pages.to_sign_in(request)
        try:
            return view(request, current, **arguments)
        except ApiError as error:
            if error.status >= 500:
                raise
            messages.error(request, error.message)
            return with_error(request, to_account(), error)

    return respond


def render_form(
    request: HttpRequest, *, title: str, status: int = 200, error: ApiError | None = None, **context: Any
) -> HttpResponse:
    """The page of `operator/account_form.html`: in the console, or standalone during the sign-in.

    `error` is shown above the form, and determines the status. Raises it if the service failed.
    """
    if error is not None and error.status >= 500:
        raise error
    variables = {
        "title": title,
        "back_url": reverse("admin:account"),
        "problem": error.message if error else "",
        **context,
    }
    page = render_page(request, "operator/account_form.html", status=error.status if error else status, **variables)
    return with_error(request, page, error) if error else page


def render_page(request: HttpRequest, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
    if not isinstance(request.user, Operator):
        return pages.render_standalone(request, template, status=status, layout="operator/standalone.html", **context)
    # The page shows the operator's own data only, which is not hidden from viewers.
    site = {**admin.site.each_context(request), "hides_personal_data": False}
    return render(request, template, {**site, **context}, status=status)


def to_account() -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:account"))

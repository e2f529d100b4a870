"""Protection of the console's forms against being sent from elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.views.decorators import csrf

View = Callable[[HttpRequest], HttpResponse]


def refused_from_elsewhere(view: View) -> View:
    """Django's protection, made for each request: one that is kept goes on trusting the origins that it began with."""

    @functools.wraps(view)
    def respond(request: HttpRequest) -> HttpResponse:
        return csrf.csrf_protect(view)(request)

    return respond

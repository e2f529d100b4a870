"""Routes with and without a trailing slash, as one line of a route table."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path


def slash_optional(route: str, view: Callable[..., HttpResponseBase], **kwargs: Any) -> list[URLPattern]:
    """The route and its twin that ends in a slash; neither redirects to the other."""
    return [path(route, view, **kwargs), path(f"{route}/", view, **kwargs)]


NO_ROUTE = "noroute"
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)")


def route_template(request: HttpRequest) -> str:
    """The route of a request as documents write it, `/admin/users/{user_id}`; `noroute` where none fits."""
    match = request.resolver_match
    return NO_ROUTE if match is None else _template(match.route)


@cache
def _template(route: str) -> str:
    text = _PARAMETER.sub(lambda found: f"{{{found[1] or found[2]}}}", route)
    return f"/{text.strip('^$/')}"

"""The route of a request as documents write it, for metrics, spans and the access log."""

from __future__ import annotations

import re
from functools import cache

from django.http import HttpRequest

NO_ROUTE = "noroute"
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)")


def route_template(request: HttpRequest) -> str:
    """`/admin/users/{user_id}`, without a trailing slash; `noroute` where no route matches."""
    match = request.resolver_match
    return NO_ROUTE if match is None else _template(match.route)


@cache
def _template(route: str) -> str:
    text = _PARAMETER.sub(lambda parameter: f"{{{parameter[1] or parameter[2]}}}", route)
    return f"/{text.strip('^$/')}"

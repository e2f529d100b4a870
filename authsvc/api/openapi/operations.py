"""Lists every operation of the API from the route table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from authsvc.api.captcha import CaptchaFailed, CaptchaUnavailable
from authsvc.api.openapi import document
from authsvc.api.openapi.document import ErrorTypes, OperationDoc
from authsvc.api.views import Endpoint
from authsvc.errors import BadJson, BodyTooLarge, RequestBodyTimedOut, RequestRateExceeded

_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")


class UndocumentedOperation(Exception):
    """A method of an endpoint has no `@document`; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path; `path` contains parameters as `{name}`."""

    path: str
    method: str
    view: type[Endpoint]
    function: Callable[..., Any]
    doc: OperationDoc

    @property
    def variables(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    @property
    def scheme(self) -> str:
        """The name of the security scheme, empty for a public operation."""
        return next((getattr(authentication, "scheme", "") for authentication in self.view.authentication_classes), "")

    @property
    def reads_captcha(self) -> bool:
        return self.view.captcha or CaptchaFailed in self.doc.errors

    @property
    def documented_errors(self) -> ErrorTypes:
        """Every error of the operation once: the documented ones, and those of the policies of the view."""
        policies: list[Any] = [*self.view.authentication_classes, *self.view.permission_classes, self.view]
        errors: ErrorTypes = tuple(error for policy in policies for error in getattr(policy, "documented_errors", ()))
        for policy in policies:
            if errors_of_method := getattr(policy, "errors_of_method", None):
                errors += errors_of_method(self.view, self.method)
        doc = self.doc
        if doc.body is not None or doc.choice is not None or self.view.captcha:
            errors += (BadJson, BodyTooLarge, RequestBodyTimedOut)
        if self.view.throttle_scope is not None:
            errors += (RequestRateExceeded,)
        if self.view.captcha:
            errors += (CaptchaFailed, CaptchaUnavailable)
        errors += doc.errors
        if doc.choice is not None:
            errors += tuple(
                error for alternative in doc.choice.variants().values() for error in alternative.documented_errors
            )
        return tuple(dict.fromkeys(errors))


def operations() -> list[Operation]:
    """All operations in the order of the route table. Raises UndocumentedOperation."""
    operations_by_route: dict[tuple[str, str], Operation] = {}
    for path, view in endpoints():
        for method in view.http_method_names:
            function = getattr(view, method, None)
            if function is None:
                continue
            doc = document.operation_doc(function)
            if doc is None:
                raise UndocumentedOperation(
                    f"{method.upper()} {path} ({view.__module__}.{view.__name__}) has no @document"
                )
            operations_by_route[path, method] = Operation(
                path=path, method=method, view=view, function=function, doc=doc
            )
    return list(operations_by_route.values())


def endpoints(*, described: bool = True) -> Iterator[tuple[str, type[Endpoint]]]:
    """Path and view of every route of the API that the description contains, or of every other one.

    Paths have no trailing slash.
    """
    for route, pattern in _list_routes(get_resolver().url_patterns, "/"):
        view = getattr(pattern.callback, "view_class", None)
        if isinstance(view, type) and issubclass(view, Endpoint) and view.is_described is described:
            yield _VARIABLE.sub(r"{\1}", route), view


def _list_routes(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _list_routes(pattern.url_patterns, route)
        else:
            yield route, pattern

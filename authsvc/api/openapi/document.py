"""Documents the methods of views for OpenAPI: parameters, body, responses and errors.

`@document` decorates a method of an endpoint; the docstring of the method is the description. Everything that follows
from the policies of the view (authentication, captcha, throttling) is derived from them and not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar

from authsvc.api.parsing import Body
from authsvc.errors import ApiError, OAuthError

ErrorTypes = tuple[type[ApiError] | type[OAuthError], ...]
Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "operation_doc"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter. `values` lists the permitted values, empty for any value; `minimum` makes it an integer."""

    name: str
    description: str
    values: tuple[str, ...] = ()
    required: bool = False
    minimum: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    """One response. `schema` is a type, a tuple of alternative types, or None for a response without a JSON body."""

    description: str
    schema: Any = None
    headers: tuple[str, ...] = ()
    media_type: str = "application/json"


class BodyVariant(Protocol):
    """One operation of an endpoint that a query parameter selects; a grant of `/token`, for example."""

    @property
    def input(self) -> type[Body]: ...

    response_schema: ClassVar[Any]
    documented_errors: ClassVar[ErrorTypes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyChoice:
    """A query parameter whose value selects the request body and the response."""

    parameter: str
    variants: Callable[[], Mapping[str, BodyVariant]]
    """Value of the parameter → variant; called once all apps are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDoc:
    """The arguments of `@document`."""

    body: type[Body] | None = None
    body_optional: bool = False
    form: type[Body] | None = None
    """The body, if it is `application/x-www-form-urlencoded`."""
    query: tuple[Parameter, ...] = ()
    choice: BodyChoice | None = None
    responses: Mapping[int, Any] = field(default_factory=dict)
    """Status → ResponseDoc, or the schema alone."""
    errors: ErrorTypes = ()
    redirect_errors: ErrorTypes = ()
    """Errors that are reported in the query or fragment of the redirect target."""


def document(
    *,
    body: type[Body] | None = None,
    body_optional: bool = False,
    form: type[Body] | None = None,
    query: tuple[Parameter, ...] = (),
    choice: BodyChoice | None = None,
    responses: Mapping[int, Any],
    errors: ErrorTypes = (),
    redirect_errors: ErrorTypes = (),
) -> Callable[[Function], Function]:
    """Decorate the method of a view with its OperationDoc."""
    doc = OperationDoc(
        body=body,
        body_optional=body_optional,
        form=form,
        query=query,
        choice=choice,
        responses=responses,
        errors=errors,
        redirect_errors=redirect_errors,
    )

    def decorate(function: Function) -> Function:
        function.__dict__[_ATTRIBUTE] = doc
        return function

    return decorate


def operation_doc(function: Callable[..., Any]) -> OperationDoc | None:
    """The OperationDoc of a method, None for an undocumented one."""
    doc: OperationDoc | None = getattr(function, _ATTRIBUTE, None)
    return doc


class Empty(TypedDict):
    """An empty object."""


REDIRECT_TO = Parameter(
    "redirect_to", "The final target of the link or redirect; a request header of this name takes precedence."
)
PAGE = Parameter("page", "The page, from 1.", minimum=0)
PER_PAGE = Parameter("per_page", "Items per page, 50 by default.", minimum=1)
TOTALS = ("X-Total-Count", "Link")

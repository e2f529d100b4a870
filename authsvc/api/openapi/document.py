"""What an endpoint says of itself: parameters, body, answers and refusals, for the description of the API.

A declaration stands on the method of a view, whose docstring says in words what it does. What follows from the policies
of the view (token, captcha, request limit) is not repeated in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar

import msgspec

from authsvc.errors import ApiError, OAuthError

Refusals = tuple[type[ApiError] | type[OAuthError], ...]
Function = TypeVar("Function", bound=Callable[..., Any])

_DECLARED = "authsvc_declared"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of the query. `values` are those it may have, where they can be listed."""

    name: str
    text: str
    values: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in full. `shape` is a type, several of which one it is, or None where there is no body."""

    text: str
    shape: Any = None
    headers: tuple[str, ...] = ()
    media_type: str = "application/json"


class Alternative(Protocol):
    """One of the things that a single endpoint does, chosen by a query parameter."""

    input: type[msgspec.Struct]
    shape: ClassVar[Any]
    refusals: ClassVar[Refusals]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A query parameter whose value decides which body is read and what is answered."""

    parameter: str
    alternatives: Callable[[], Mapping[str, Alternative]]
    """Asked when every app is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    form: type[msgspec.Struct] | None = None
    """The body where it is the fields of an HTML form."""
    query: tuple[Parameter, ...] = ()
    choice: Choice | None = None
    answers: Mapping[int, Any] = field(default_factory=dict)
    """Status → Reply, or the shape alone."""
    refusals: Refusals = ()
    redirected: Refusals = ()
    """Refusals that the target of the redirect is told."""


def declares(
    *,
    body: type[msgspec.Struct] | None = None,
    body_optional: bool = False,
    form: type[msgspec.Struct] | None = None,
    query: tuple[Parameter, ...] = (),
    choice: Choice | None = None,
    answers: Mapping[int, Any],
    refusals: Refusals = (),
    redirected: Refusals = (),
) -> Callable[[Function], Function]:
    """Put a declaration on the method of a view."""
    declaration = Declaration(
        body=body,
        body_optional=body_optional,
        form=form,
        query=query,
        choice=choice,
        answers=answers,
        refusals=refusals,
        redirected=redirected,
    )

    def put(function: Function) -> Function:
        function.__dict__[_DECLARED] = declaration
        return function

    return put


def of(function: Callable[..., Any]) -> Declaration | None:
    """The declaration of a method, None where there is none."""
    found: Declaration | None = getattr(function, _DECLARED, None)
    return found


class Empty(TypedDict):
    """An empty object."""


REDIRECT_TO = Parameter("redirect_to", "Where the link, or the browser, leads in the end; a header of this name wins.")
TOTALS = ("X-Total-Count", "Link")

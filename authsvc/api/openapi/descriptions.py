"""Reads descriptions for the generated documents from docstrings and error classes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from functools import cache
from typing import Any, TypeVar

import msgspec

from authsvc.api import parsing
from authsvc.errors import ApiError, OAuthError

_FOUNDATIONS = (msgspec.Struct, parsing.Body)
_Error = TypeVar("_Error", bound=ApiError | OAuthError)


class _Number(int):
    """A number that is formatted as the name of a parameter."""

    name = ""

    def __format__(self, _: str) -> str:
        return self.name


@cache
def of_fields(kind: type) -> dict[str, str]:
    """Field → its docstring, or `""`; in source order, inherited fields first."""
    if kind in _FOUNDATIONS:
        return {}
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(declared, ast.ClassDef)  # noqa: S101  (the source of a class)
    found: dict[str, str] = {}
    # A TypedDict does not keep its bases at run time, so the source is read.
    for base in declared.bases:
        inherited = vars(sys.modules[kind.__module__]).get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(inherited, type):
            found |= of_fields(inherited)
    return found | of_statements(declared.body)


def of_statements(body: list[ast.stmt]) -> dict[str, str]:
    """The same for the statements of a class body."""
    found: dict[str, str] = {}
    name = ""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            found[name] = ""
        elif name and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            found[name] = paragraphs(str(statement.value.value))
        else:
            name = ""
    return found


def of(documented: object) -> tuple[str, str]:
    """The first sentence of a docstring without its full stop, and the rest."""
    text = paragraphs(inspect.getdoc(documented) or "")
    first, _, rest = text.partition("\n\n")
    return first.removesuffix("."), rest


def when(error: type[ApiError] | type[OAuthError]) -> str:
    """The docstring of the error class itself, which says when the error occurs; inherited docstrings are ignored."""
    return paragraphs(inspect.cleandoc(error.__dict__.get("__doc__") or ""))


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", part.strip()) for part in inspect.cleandoc(text).split("\n\n"))


def specimen(error: type[_Error]) -> _Error:
    """An error of this class whose text contains its parameters as `{name}`."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(error.__init__).parameters.items():
        if name == "self" or parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.annotation == "int":
            number = _Number(60)
            number.name = f"{{{name}}}"
            given[name] = number
        elif parameter.annotation == "bool":
            given[name] = True
        else:
            given[name] = [f"{{{name}}}"] if "Sequence" in str(parameter.annotation) else f"{{{name}}}"
    return error(**given)

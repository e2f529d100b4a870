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
def describe_fields(struct: type) -> dict[str, str]:
    """Field → its docstring, or `""`; in source order, inherited fields first."""
    if struct in _FOUNDATIONS:
        return {}
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(declared, ast.ClassDef)  # noqa: S101  (the source of a class)
    descriptions: dict[str, str] = {}
    # A TypedDict does not keep its bases at run time, so the source is read.
    for base in declared.bases:
        inherited = vars(sys.modules[struct.__module__]).get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(inherited, type):
            descriptions |= describe_fields(inherited)
    return descriptions | _describe_statements(declared.body)


def _describe_statements(body: list[ast.stmt]) -> dict[str, str]:
    """The same for the statements of a class body."""
    descriptions: dict[str, str] = {}
    name = ""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            descriptions[name] = ""
        elif name and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            descriptions[name] = unwrap_paragraphs(str(statement.value.value))
        else:
            name = ""
    return descriptions


def split_docstring(documented: object) -> tuple[str, str]:
    """The first sentence of a docstring without its full stop, and the rest."""
    text = unwrap_paragraphs(inspect.getdoc(documented) or "")
    summary, _, description = text.partition("\n\n")
    return summary.removesuffix("."), description


def describe_condition(error: type[ApiError] | type[OAuthError]) -> str:
    """When the error occurs: the docstring of the error class itself; inherited docstrings are ignored."""
    return unwrap_paragraphs(inspect.cleandoc(error.__dict__.get("__doc__") or ""))


def unwrap_paragraphs(text: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", part.strip()) for part in inspect.cleandoc(text).split("\n\n"))


def instantiate(error: type[_Error]) -> _Error:
    """An error of this class whose text contains its parameters as `{name}`."""
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(error.__init__).parameters.items():
        if name == "self" or parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.annotation == "int":
            number = _Number(60)
            number.name = f"{{{name}}}"
            arguments[name] = number
        elif parameter.annotation == "bool":
            arguments[name] = True
        else:
            arguments[name] = [f"{{{name}}}"] if "Sequence" in str(parameter.annotation) else f"{{{name}}}"
    return error(**arguments)

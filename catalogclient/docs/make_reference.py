"""Writes reference.md from the docstrings of the public names; with --check it only says whether that changes it."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("reference.md")
MODULES = ("", ".updates", ".requirements", ".expressions", ".credentials", ".auth")
HEAD = "# Reference\n\nWritten by `docs/make_reference.py` from the docstrings; change those.\n"


class _Written:
    """An annotation or a default as it stands in the source."""

    def __init__(self, value: Any) -> None:
        self.text = value if isinstance(value, str) else inspect.formatannotation(value)

    def __repr__(self) -> str:
        return self.text


def _signature(function: Callable[..., Any]) -> str:
    found = inspect.signature(function)
    parameters = []
    for each in found.parameters.values():
        annotation = each.annotation if each.annotation is each.empty else _Written(each.annotation)
        default = _Written(each.default.__name__) if inspect.isroutine(each.default) else each.default
        default = _Written(default.name) if isinstance(default, enum.Enum) else default
        if each.name not in ("self", "cls"):
            parameters.append(each.replace(annotation=annotation, default=default))
    return str(found.replace(parameters=parameters, return_annotation=_Written(found.return_annotation)))


def _function(name: str, function: Callable[..., Any], *, level: str) -> str:
    code = "\n".join(f"{name}{_signature(form)}" for form in typing.get_overloads(function) or [function])
    # A constructor that dataclasses made has the text of every object's.
    text = function.__doc__ if function.__name__ == "__init__" else inspect.getdoc(function)
    return f"{level} {name}\n\n```\n{code}\n```\n\n{inspect.cleandoc(text or '')}\n"


def _attributes(found: type) -> dict[str, str]:
    """Its annotated names → what is written of each, with the text that follows it in the source."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(found))).body
    body = typing.cast(ast.ClassDef, definition).body
    lines = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            told = following.value if isinstance(following, ast.Expr) else None
            text = inspect.cleandoc(str(told.value)) if isinstance(told, ast.Constant) else ""
            line = f"- `{node.target.id}: {ast.unparse(node.annotation)}` {' '.join(text.split())}"
            lines[node.target.id] = line.rstrip()
    return lines


def _class(name: str, found: type, public: set[Any]) -> Iterator[str]:
    bases = " · ".join(f"`{base.__name__}`" for base in found.__bases__ if base in public)
    yield f"### {name}\n\n{f'Based on {bases}. ' if bases else ''}{inspect.getdoc(found) or ''}\n"
    # What a public base has too stands there.
    shown = [base for base in found.__mro__ if base is found or base not in public]
    ours = [base for base in shown if base.__module__.startswith("catalogclient")]
    attributes = {name: line for base in reversed(ours) for name, line in _attributes(base).items()}
    if attributes:
        yield "\n".join(attributes.values()) + "\n"
    for member, value in sorted({key: value for base in reversed(shown) for key, value in vars(base).items()}.items()):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_ours = inspect.isfunction(function) and function.__module__.startswith("catalogclient")
        constructs = member == "__init__" and not issubclass(found, Exception)
        if is_ours and (constructs or not member.startswith("_")):
            yield _function(name if constructs else f"{name}.{member}", function, level="####")


def reference() -> str:
    parts, written = [HEAD], set[int]()
    modules = [importlib.import_module(f"catalogclient{suffix}") for suffix in MODULES]
    public = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    for module in modules:
        parts.append(f"## {module.__name__}\n\n{inspect.getdoc(module)}\n")
        own = [name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__]
        for name in sorted(name for name in getattr(module, "__all__", own) if not name.startswith("_")):
            found = getattr(module, name)
            if inspect.isclass(found) and id(found) not in written:
                parts.extend(_class(name, found, public))
            elif inspect.isfunction(found) and id(found) not in written:
                parts.append(_function(name, found, level="###"))
            written.add(id(found))
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" not in sys.argv:
        TARGET.write_text(reference())
    elif not TARGET.exists() or TARGET.read_text() != reference():
        sys.exit(f"{TARGET.name} is not what the docstrings say: run {Path(__file__).name}")

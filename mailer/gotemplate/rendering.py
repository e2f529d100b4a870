"""Renders a parsed template within limits of output, work and nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from mailer.gotemplate import functions, tree, values

MAX_TEXT = 2_000_000
"""Maximum length of the rendered text and of each computed value."""
MAX_WORK = 5_000_000
"""Maximum work: one unit per processed character, NODE_COST per node or call."""
NODE_COST = 20
MAX_DEPTH = 100
"""Maximum nesting of blocks, includes and calls."""


class TemplateRenderError(Exception):
    """The rendering exceeded a limit, which the message names."""


class Writer(Protocol):
    """Converts literal text and values for the output, depending on the text written before."""

    def literal(self, text: str) -> str: ...

    def value(self, value: Any) -> str: ...


class Rendering:
    """The state of one rendering: output, variables in scope, and work."""

    def __init__(self, program: tree.Program, variables: Mapping[str, Any], writer: Writer | None) -> None:
        self._program = program
        self._dot: Any = variables
        self._scope: list[tuple[str, Any]] = [("$", variables)]
        self._literal: Callable[[str], str] = writer.literal if writer else str
        self._value_text: Callable[[Any], str] = writer.value if writer else values.text_of
        self._written: list[str] = []
        self._length = 0
        self._work = 0
        self._depth = 0

    def text(self) -> str:
        self._run(self._program.main)
        return "".join(self._written)

    def _run(self, body: tree.Body) -> None:
        self._descend()
        size = len(self._scope)
        for node in body:
            self._spend(NODE_COST)
            match node:
                case tree.Text(text):
                    self._write(self._literal(text))
                case tree.Print(pipeline):
                    value = self._pipeline(pipeline)
                    if not pipeline.variables:
                        self._write(self._value_text(value))
                case tree.If() | tree.With() | tree.Range():
                    self._branch(node)
                case tree.Include(name, argument):
                    self._include(name, argument)
        del self._scope[size:]
        self._depth -= 1

    def _branch(self, node: tree.If | tree.With | tree.Range) -> None:
        size, outer = len(self._scope), self._dot
        if isinstance(node, tree.Range):
            self._range(node)
        else:
            value = self._pipeline(node.pipeline)
            true = values.is_true(value)
            if true and isinstance(node, tree.With):
                self._dot = value
            self._run(node.body if true else node.otherwise)
        self._dot = outer
        del self._scope[size:]

    def _range(self, node: tree.Range) -> None:
        names = node.pipeline.variables
        entries = self._entries(self._value(node.pipeline.value))
        if node.pipeline.declared:
            self._scope.extend((name, None) for name in names)
        empty = True
        for key, value in entries:
            empty = False
            self._dot = value
            if names:
                self._assign(names[-1], value)
            if len(names) == 2:
                self._assign(names[0], key)
            self._run(node.body)
        if empty:
            self._run(node.otherwise)

    def _entries(self, collection: Any) -> Iterable[tuple[Any, Any]]:
        if isinstance(collection, Mapping):
            self._spend(len(collection))
            return [(key, collection[key]) for key in values.keys_of(collection)]
        return enumerate(collection) if isinstance(collection, list | tuple) else ()

    def _include(self, name: str, argument: tree.Pipeline | None) -> None:
        value = None if argument is None else self._pipeline(argument)
        outer = self._dot, self._scope
        self._dot, self._scope = value, [("$", value)]
        self._run(self._program.named[name])
        self._dot, self._scope = outer

    def _pipeline(self, pipeline: tree.Pipeline) -> Any:
        value = self._value(pipeline.value)
        for name in pipeline.variables:
            if pipeline.declared:
                self._scope.append((name, value))
            else:
                self._assign(name, value)
        return value

    def _assign(self, name: str, value: Any) -> None:
        position = next(index for index in reversed(range(len(self._scope))) if self._scope[index][0] == name)
        self._scope[position] = (name, value)

    def _value(self, expression: tree.Expression) -> Any:
        match expression:
            case tree.Literal(value):
                return value
            case tree.Dot():
                return self._dot
            case tree.Variable(name):
                return next(value for variable, value in reversed(self._scope) if variable == name)
            case tree.Path(start, keys):
                value = self._value(start)
                for key in keys:
                    value = value.get(key) if isinstance(value, Mapping) else None
                return value
            case tree.Call(name, arguments):
                self._descend()
                self._spend(NODE_COST)
                result = functions.TABLE[name].run(*map(self._value, arguments))
                self._depth -= 1
                return self._bounded(result)

    def _bounded(self, result: Any) -> Any:
        if isinstance(result, str | list | tuple):
            self._spend(len(result))
            if len(result) > MAX_TEXT:
                raise TemplateRenderError("a value is too long")
        return result

    def _write(self, text: str) -> None:
        self._spend(len(text))
        self._length += len(text)
        if self._length > MAX_TEXT:
            raise TemplateRenderError("the text is too long")
        self._written.append(text)

    def _spend(self, amount: int) -> None:
        self._work += amount
        if self._work > MAX_WORK:
            raise TemplateRenderError("too much work")

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TemplateRenderError("nested too deeply")

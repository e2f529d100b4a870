"""The syntax tree: expressions have a value, nodes write output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dot:
    """The current value: `.`"""


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`; `$` alone is the root value."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Path:
    """Access to nested objects: `.A.b`, `$x.b`, `(…).b`."""

    start: Expression
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments; in `a | f b` the piped value is the last argument."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Dot | Variable | Literal | Path | Call


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A value and the variables to which it is assigned (`declared`: new ones)."""

    value: Expression
    variables: tuple[str, ...] = ()
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Print:
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class If:
    pipeline: Pipeline
    body: Body
    otherwise: Body


@dataclass(frozen=True, slots=True)
class With:
    pipeline: Pipeline
    body: Body
    otherwise: Body


@dataclass(frozen=True, slots=True)
class Range:
    pipeline: Pipeline
    body: Body
    otherwise: Body


@dataclass(frozen=True, slots=True)
class Include:
    """`{{ template "name" value }}`"""

    name: str
    pipeline: Pipeline | None


Node = Text | Print | If | With | Range | Include
Body = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Program:
    main: Body
    named: Mapping[str, Body]

"""Shows what a command found: as tables for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import rich.box
import rich.console
import rich.table
import rich.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows for people; `columns` is empty where the cells speak for themselves."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The outcome of a command in both forms."""

    document: Any
    """What JSON can say; the whole of it."""
    tables: Sequence[Table] = field(default_factory=tuple)


def name(levels: Iterable[str]) -> str:
    """A name that can be given back to the command line."""
    names = list(levels)
    if any("." in each or each.startswith("[") for each in names):
        return json.dumps(names, ensure_ascii=False)
    return ".".join(names)


def printable(value: object) -> str:
    """The text of a cell, with whatever could steer a terminal made visible."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in str(value))


def show(found: Found, *, output: TextIO, as_json: bool) -> None:
    if as_json:
        json.dump(found.document, output, ensure_ascii=False, indent=2)
        output.write("\n")
        return
    console = rich.console.Console(file=output, markup=False, highlight=False, emoji=False)
    for table in found.tables:
        console.print(_drawn(table))


def _drawn(table: Table) -> rich.table.Table:
    drawn = rich.table.Table(
        title=rich.text.Text(printable(table.title)),
        title_justify="left",
        box=rich.box.SIMPLE_HEAD if table.columns else rich.box.SIMPLE,
        show_header=bool(table.columns),
        show_edge=False,
    )
    for column in table.columns or range(max((len(row) for row in table.rows), default=0)):
        drawn.add_column(str(column), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(rich.text.Text(printable(cell)) for cell in row))
    return drawn

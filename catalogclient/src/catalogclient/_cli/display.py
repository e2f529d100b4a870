"""Renders the output of a command as tables or as JSON."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import rich.box
import rich.console
import rich.table
import rich.text

from catalogclient import _redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. Without `columns` it has no header."""

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output of a command in both forms."""

    document: Any
    """JSON document."""
    tables: Sequence[Table] = field(default_factory=tuple)


def name(levels: Iterable[str]) -> str:
    """Format a name in a form that the command line accepts."""
    names = list(levels)
    if any("." in level or level.startswith("[") for level in names):
        return json.dumps(names, ensure_ascii=False)
    return ".".join(names)


def format_value(value: object) -> str:
    """Format a cell or a message. Control characters are escaped, because they could control the terminal."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _redact.escape(str(value))


def render(output: Output, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(output.document, ensure_ascii=False, indent=2) + "\n"
    text = io.StringIO()
    width = rich.console.Console(file=sys.stdout).width
    console = rich.console.Console(file=text, width=width, markup=False, highlight=False, emoji=False)
    for table in output.tables:
        console.print(_rich_table(table))
    return text.getvalue()


def _rich_table(table: Table) -> rich.table.Table:
    rich_table = rich.table.Table(
        title=rich.text.Text(format_value(table.title)),
        title_justify="left",
        box=rich.box.SIMPLE_HEAD if table.columns else rich.box.SIMPLE,
        show_header=bool(table.columns),
        show_edge=False,
    )
    for column in table.columns or range(max((len(row) for row in table.rows), default=0)):
        rich_table.add_column(str(column), overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(rich.text.Text(format_value(cell)) for cell in row))
    return rich_table

"""The mapping of one table: the source of its rows, the rules of its columns, and the owners of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from authsvc.importer.column_rules import Columns, Rule, expression, unchanged
from authsvc.importer.source_database import SourceDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """Source rows called `x`: the text of a FROM clause, and its columns."""

    sql: str
    columns: Columns
    is_derived: bool = False
    """True if the rows come from other tables, because the source is older than the table or one of its changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The row to which a row belongs and with which it is deleted."""

    column: str
    table: str
    noun: str
    is_optional: bool = False


def same_table(table: str) -> Callable[[SourceDatabase], list[RowSource]]:
    """The table of that name, or nothing if the source lacks it."""

    def row_sources(source: SourceDatabase) -> list[RowSource]:
        columns = source.tables.get(table)
        return [RowSource(sql=f"{source.name(table)} x", columns=columns)] if columns else []

    return row_sources


never = expression("NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An imported table. `table_definitions.TABLES` lists each one after the tables it refers to."""

    name: str
    """The name at the source and, with the namespace, in this database."""
    columns: Mapping[str, Rule]
    """Target column → rule. Other target columns keep their default."""
    key: str = "id"
    """The columns of the primary key."""
    ignored: frozenset[str] = frozenset()
    """Columns of the source that are intentionally not imported."""
    owners: tuple[Owner, ...] = ()
    skip_reason: Rule = never
    """Expression for the reason to skip a row; NULL imports it."""
    distinct: tuple[str, ...] = ()
    """Columns that are unique here but not at the source; the newest of several rows is imported."""
    reassignable: tuple[str, ...] = ()
    """Unique columns whose values may move from one row to another between two runs."""
    encrypted: tuple[str, ...] = ()
    """Columns that column encryption may have encrypted."""
    key_digests: Callable[[str], None] | None = None
    """Puts the digests of secrets in a table under the key of this server."""
    is_essential: bool = False
    """A skipped row of an imported user ends a session or locks the user out."""
    is_optional: bool = False
    """Imported only on request."""
    app: str = ""
    """The app that owns the table, if it can be left out of INSTALLED_APPS."""
    row_sources: Callable[[SourceDatabase], list[RowSource]] | None = None
    """Sources of the rows, if not the table of that name."""

    def queries(self, source: SourceDatabase) -> list[tuple[str, RowSource]]:
        """SELECT statements with the columns of `columns`, then `skip`."""
        row_sources = (self.row_sources or same_table(self.name))(source)
        return [(self._select(rows.sql, rows.columns), rows) for rows in row_sources]

    def _select(self, from_clause: str, source_columns: Columns) -> str:
        rules = {**self.columns, "skip": self.skip_reason}
        selected = ", ".join(f"{rule(name, source_columns)} AS {name}" for name, rule in rules.items())
        return f"SELECT {selected} FROM {from_clause}"  # noqa: S608  (expressions of our own)


def copied(*names: str) -> dict[str, Rule]:
    """Columns that are copied unchanged."""
    return dict.fromkeys(names, unchanged)

"""What it takes to bring one table over: where its rows come from, how each column is made, whose they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from authsvc.importer.columns import Columns, Rule, expression, kept
from authsvc.importer.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Rows of the source called `x`: what stands behind FROM, and the columns that it has."""

    sql: str
    columns: Columns
    is_made: bool = False
    """The rows are made from other tables, because the source is older than the table or than a change of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The row that a row belongs to and comes and goes with."""

    column: str
    table: str
    noun: str
    is_optional: bool = False


def itself(table: str) -> Callable[[Source], list[Origin]]:
    """The table of that name as it stands; nothing where the source has none."""

    def origins(source: Source) -> list[Origin]:
        there = source.tables.get(table)
        return [Origin(sql=f"{source.name(table)} x", columns=there)] if there else []

    return origins


never = expression("NULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is taken. Each capability adds its own to `declarations.TABLES`, behind the tables it refers to."""

    name: str
    """The same at the source and, under the namespace, here."""
    columns: Mapping[str, Rule]
    """Our column → how it is made. Columns of ours that are not named keep their default."""
    dropped: frozenset[str] = frozenset()
    """Columns of the source that are left behind on purpose."""
    owners: tuple[Owner, ...] = ()
    refused: Rule = never
    """Why a row is not taken, as an expression; NULL when it is."""
    distinct: tuple[str, ...] = ()
    """Columns that must be unique here and were not always so there; of several rows the newest is taken."""
    released: tuple[str, ...] = ()
    """Columns that are unique and may move from one row to another between two passes."""
    sealed: tuple[str, ...] = ()
    """Columns that column encryption may have sealed."""
    is_vital: bool = False
    """A row that is not taken although its user is signs somebody out or locks them out."""
    is_optional: bool = False
    """Taken only when it is asked for."""
    made_from: Callable[[Source], list[Origin]] | None = None
    """Where the rows come from, if not from the table of that name as it stands."""

    def queries(self, source: Source) -> list[tuple[str, Origin]]:
        """What to read: statements whose columns are those of `columns`, then `skip`."""
        origins = (self.made_from or itself(self.name))(source)
        return [(self._select(origin.sql, origin.columns), origin) for origin in origins]

    def _select(self, origin: str, there: Columns) -> str:
        rules = {**self.columns, "skip": self.refused}
        listed = ", ".join(f"{rule(name, there)} AS {name}" for name, rule in rules.items())
        return f"SELECT {listed} FROM {origin}"  # noqa: S608  (expressions of our declarations)


def plain(*names: str) -> dict[str, Rule]:
    """Columns that are copied as they are."""
    return dict.fromkeys(names, kept)

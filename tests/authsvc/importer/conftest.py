"""A reference database, and a runner for the import command."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from django.core.management import CommandError, call_command

from tests.authsvc.importer.reference import CURRENT, Reference
from tests.live import servers


@pytest.fixture
def make_reference() -> Iterator[Callable[..., Reference]]:
    """`make_reference(OF_2022)` creates the test's database with the schema of that year, without rows."""
    with servers.empty_database() as url:
        made: list[Reference] = []

        def make(ddl: str = CURRENT) -> Reference:
            made.append(Reference(url, ddl))
            return made[-1]

        yield make
        for database in made:
            database.close()


@pytest.fixture
def reference(make_reference: Callable[..., Reference]) -> Reference:
    return make_reference()


@dataclass(frozen=True)
class Ran:
    output: str
    warnings: str
    error: str
    """Empty if the command succeeded."""

    def counts(self, table: str) -> dict[str, int]:
        """The reported counts of a table, without zeros."""
        lines = [line.split() for line in self.output.splitlines()]
        heads = next(line for line in lines if line[:1] == ["table"])
        values = next(line for line in lines if line[:1] == [table])
        numbers = ((head, int(value.replace(",", ""))) for head, value in zip(heads[1:], values[1:], strict=True))
        return {head: number for head, number in numbers if number}


def run(source: str, *flags: str) -> Ran:
    """`manage.py import_reference source …`."""
    output, warnings = io.StringIO(), io.StringIO()
    try:
        call_command("import_reference", source, *flags, stdout=output, stderr=warnings)
    except CommandError as error:
        return Ran(output.getvalue(), warnings.getvalue(), str(error))
    return Ran(output.getvalue(), warnings.getvalue(), "")

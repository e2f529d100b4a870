"""One pass of an import: read all of the source, look at it, then write it in one transaction or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor

from authsvc.importer import declarations, findings, legacy_sessions, queries, source
from authsvc.importer.errors import ImportRefused
from authsvc.importer.report import Report, Tally
from authsvc.importer.source import Source
from authsvc.importer.tables import Table
from authsvc.management.progress import Progress

_BLOCK = 1 << 18
"""Bytes that go to our database at once."""

ShowProgress = Callable[[str, int | None], Progress]
"""Makes a progress display for (what, total)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    dsn: str
    schema: str = "auth"
    dry_run: bool = False
    all_instances: bool = False
    with_audit_log: bool = False
    delete_missing_users: bool = False
    overwrite: bool = False
    """Also when people have used this database since."""


def run(wish: Wish, *, show: ShowProgress) -> Report:
    """Bring everything over and report. Raises ImportRefused and django.db errors; then nothing has changed.

    Can be repeated: rows are found again by their id, and what has gone from the source since goes here too.
    """
    tables = [table for table in declarations.TABLES if wish.with_audit_log or not table.is_optional]
    _refuse_unmigrated()
    try:
        with transaction.atomic(durable=True):
            queries.prepare()
            # The snapshot is given back before the long part begins: it keeps the source from cleaning up.
            with source.open(wish.dsn, schema=wish.schema) as snapshot:
                _refuse_unreadable(snapshot, tables)
                report = Report(version=snapshot.version)
                for table in tables:
                    report.tallies[table.name] = _stage(snapshot, table, show=show)
                report.left_behind = list(_left_behind(snapshot, tables))
                report.warnings = list(_surprises(snapshot, tables))
                lacks_sessions = legacy_sessions.are_missing(snapshot)
            _settle(tables, report, wish=wish, lacks_sessions=lacks_sessions)
            _write(tables, report, wish=wish, show=show)
            transaction.set_rollback(wish.dry_run)
    except psycopg.Error as error:
        raise ImportRefused(_in_one_line(error)) from None
    if not wish.dry_run:
        for table in tables:
            queries.tidy(table)
    return report


def _refuse_unmigrated() -> None:
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise ImportRefused("this database is not migrated: run `manage.py migrate` first")


def _refuse_unreadable(snapshot: Source, tables: list[Table]) -> None:
    unreadable = sorted(snapshot.unreadable & {table.name for table in tables})
    if unreadable:
        names = ", ".join(f"{snapshot.schema}.{name}" for name in unreadable)
        raise ImportRefused(f"the role {snapshot.role} has no right to read {names}")


def _stage(snapshot: Source, table: Table, *, show: ShowProgress) -> Tally:
    queries.make_staging(table)
    tally = Tally()
    for query, origin in table.queries(snapshot):
        progress = show(f"rows of {table.name} read", snapshot.estimates.get(table.name) or None)
        number = _copy(snapshot.stream(query), into=queries.copy_into(table), progress=progress)
        progress.finish()
        if origin.is_made:
            tally.made += number
        else:
            tally.read += number
    queries.analyze(table)
    return tally


def _copy(rows: Iterator[bytes], *, into: str, progress: Progress) -> int:
    number = told = size = 0
    block: list[bytes] = []
    with connection.connection.cursor().copy(into) as target:
        for row in rows:
            block.append(row)
            number += 1
            size += len(row)
            if size >= _BLOCK:
                target.write(b"".join(block))
                progress.advance(number - told)
                block, told, size = [], number, 0
        target.write(b"".join(block))
    progress.advance(number - told)
    return number


def _settle(tables: list[Table], report: Report, *, wish: Wish, lacks_sessions: bool) -> None:
    """Decide for every staged row whether it is taken, and whether any of them can be."""
    for table in tables:
        if wish.all_instances:
            queries.execute(
                f"UPDATE {queries.staged(table.name)} SET skip = NULL WHERE skip = %s",  # noqa: S608  (own name)
                [declarations.OTHER_INSTANCE],
            )
        for owner in table.owners:
            queries.skip_orphans(table, owner)
        for column in table.distinct:
            queries.skip_duplicates(table, column)
    if lacks_sessions:
        sessions, methods = legacy_sessions.make()
        report.tallies["sessions"].made += sessions
        report.tallies["mfa_amr_claims"].made += methods
    for table in tables:
        tally = report.tallies[table.name]
        tally.reasons = queries.skipped(table)
        tally.lost = queries.lost(table) if table.is_vital else 0
    findings.refuse_shared_addresses()
    if not wish.delete_missing_users:
        findings.refuse_occupied_addresses()
    elif not queries.taken(tables[0]):
        raise ImportRefused("the source has no users: every user here would be deleted")
    if not wish.overwrite:
        findings.refuse_if_in_use()
    report.warnings += findings.warnings()


def _write(tables: list[Table], report: Report, *, wish: Wish, show: ShowProgress) -> None:
    if wish.delete_missing_users:
        report.tallies["users"].removed = queries.delete_vanished_users()
    elif only_here := queries.vanished_users():
        report.warnings.append(
            f"{len(only_here):,} users here are not at the source: made here, or deleted there since the last pass"
            " (--delete-missing-users deletes them)"
        )
    # Before anything is written: what is gone must not stand in the way of what has come in its place.
    for table in tables:
        report.tallies[table.name].removed += queries.remove_vanished(table)
        queries.release(table)
    for table in tables:
        _write_table(table, report.tallies[table.name], show=show)
    if not wish.dry_run:
        queries.advance_sequence()


def _write_table(table: Table, tally: Tally, *, show: ShowProgress) -> None:
    wanted, pages = queries.taken(table), queries.pages(table)
    progress = show(f"rows of {table.name} written", wanted)
    told = 0
    for first in range(0, pages, queries.PAGES_PER_BATCH):
        last = min(first + queries.PAGES_PER_BATCH, pages)
        new, changed = queries.write(table, first=first, last=last)
        tally.new += new
        tally.changed += changed
        progress.advance(wanted * last // pages - told)
        told = wanted * last // pages
    progress.finish()
    tally.same = queries.arrived(table) - tally.new - tally.changed
    if tally.read + tally.made != tally.new + tally.changed + tally.same + tally.skipped:
        raise ImportRefused(f"{table.name}: {wanted:,} rows were to be written, and not all of them arrived")


def _left_behind(snapshot: Source, tables: list[Table]) -> Iterator[str]:
    taken = {table.name for table in tables}
    optional = {table.name for table in declarations.TABLES} - taken
    for name in sorted(set(snapshot.tables) - taken - declarations.NEVER):
        if name in snapshot.unreadable:
            yield f"{name}: cannot be read"
            continue
        number = snapshot.count(name)
        if not number:
            continue
        capability = declarations.NOT_YET.get(name)
        if name in optional:
            yield f"{name}: {number:,} rows: --with-audit-log takes them"
        elif capability:
            yield f"{name}: {number:,} rows: this server has no such capability yet ({capability})"
        else:
            yield f"{name}: {number:,} rows: this server does not know the table"


def _surprises(snapshot: Source, tables: list[Table]) -> Iterator[str]:
    if snapshot.version > source.KNOWN_VERSION:
        yield f"the source is newer ({snapshot.version}) than what is known here ({source.KNOWN_VERSION})"
    for table in tables:
        there = set(snapshot.tables.get(table.name, {}))
        if unknown := sorted(there - set(table.columns) - table.dropped):
            yield f"{table.name}: columns that are not known here are left behind: {', '.join(unknown)}"


def _in_one_line(error: psycopg.Error) -> str:
    # The text of an error about a value quotes the value.
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        constraint = f", constraint {error.diag.constraint_name}" if error.diag.constraint_name else ""
        return f"nothing was written: {type(error).__name__}{constraint}"
    return f"nothing was written: {error.diag.message_primary or type(error).__name__}"

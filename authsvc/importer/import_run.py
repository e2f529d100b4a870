"""One import run: stages all source rows, checks them, and writes them in one transaction or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor

from authsvc import daily_counts
from authsvc.db.sql import namespaced
from authsvc.importer import conflicts, legacy_sessions, queries, source_database, table_definitions
from authsvc.importer.report import ImportRejected, ImportReport, Tally
from authsvc.importer.source_database import SourceDatabase
from authsvc.importer.table_mapping import Table
from authsvc.management.progress import Progress

_BLOCK = 1 << 18
"""Bytes per write to the target database."""

ShowProgress = Callable[[str, int | None], Progress]
"""Creates a progress display from its noun and total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    dsn: str
    schema: str = "auth"
    dry_run: bool = False
    all_instances: bool = False
    with_audit_log: bool = False
    delete_missing_users: bool = False
    overwrite: bool = False
    """Import even if this database has been used since the last use of the source."""


def run(request: ImportRequest, *, show: ShowProgress) -> ImportReport:
    """Import everything and return a report. Raises ImportRejected and django.db errors, after which nothing changed.

    The import can be repeated: rows are matched by id, and rows deleted at the source are deleted here too.
    """
    tables = [
        table
        for table in table_definitions.TABLES
        if (request.with_audit_log or not table.is_optional) and _is_installed(table)
    ]
    _require_migrations()
    try:
        with transaction.atomic(durable=True):
            queries.configure_transaction()
            # The snapshot is closed before the long write phase, because it blocks VACUUM at the source.
            with source_database.open(request.dsn, schema=request.schema) as snapshot:
                _require_read_access(snapshot, tables)
                report = ImportReport(version=snapshot.version)
                for table in tables:
                    with _naming(table):
                        report.tallies[table.name] = _stage(snapshot, table, show=show)
                report.not_imported = list(_tables_not_imported(snapshot, tables))
                report.warnings = list(_source_warnings(snapshot, tables))
                needs_sessions = legacy_sessions.are_needed(snapshot)
            _select_rows(tables, report, request=request, needs_sessions=needs_sessions)
            _write(tables, report, request=request, show=show)
            transaction.set_rollback(request.dry_run)
    except psycopg.Error as error:
        raise ImportRejected(_error_text(error)) from None
    if not request.dry_run:
        report.warnings += _vacuum(tables)
    return report


def _vacuum(tables: list[Table]) -> Iterator[str]:
    """Prepare the tables for fast reads. A failure or interruption is a warning, because the import is committed."""
    for table in tables:
        try:
            queries.vacuum(table)
        except (psycopg.Error, KeyboardInterrupt) as error:
            name, reason = namespaced(table.name), type(error).__name__
            yield f"requests may be slow until VACUUM (ANALYZE) {name} is run, which has failed: {reason}"


def _is_installed(table: Table) -> bool:
    return not table.app or apps.is_installed(table.app)


def _require_migrations() -> None:
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise ImportRejected("this database lacks migrations: run `manage.py migrate` first")


def _require_read_access(snapshot: SourceDatabase, tables: list[Table]) -> None:
    unreadable = sorted(snapshot.unreadable & {table.name for table in tables})
    if unreadable:
        names = ", ".join(f"{snapshot.schema}.{name}" for name in unreadable)
        raise ImportRejected(f"the role {snapshot.role} has no right to read {names}")


def _stage(snapshot: SourceDatabase, table: Table, *, show: ShowProgress) -> Tally:
    queries.create_staging_table(table)
    tally = Tally()
    for query, origin in table.queries(snapshot):
        progress = show(f"rows of {table.name} read", snapshot.estimates.get(table.name) or None)
        number = _copy(snapshot.stream(query), into=queries.copy_into(table), progress=progress)
        progress.finish()
        if origin.is_derived:
            tally.derived += number
        else:
            tally.read += number
    if table.key_digests is not None:
        table.key_digests(queries.staging_table(table.name))
    queries.analyze(table)
    return tally


def _copy(rows: Iterator[bytes], *, into: str, progress: Progress) -> int:
    number = reported = size = 0
    block: list[bytes] = []
    with connection.connection.cursor().copy(into) as target:
        for row in rows:
            block.append(row)
            number += 1
            size += len(row)
            if size >= _BLOCK:
                target.write(b"".join(block))
                progress.advance(number - reported)
                block, reported, size = [], number, 0
        target.write(b"".join(block))
    progress.advance(number - reported)
    return number


def _select_rows(tables: list[Table], report: ImportReport, *, request: ImportRequest, needs_sessions: bool) -> None:
    """Mark the rows to skip, and reject the import on a conflict."""
    for table in tables:
        if request.all_instances:
            queries.execute(
                f"UPDATE {queries.staging_table(table.name)} SET skip = NULL WHERE skip = %s",  # noqa: S608  (own name)
                [table_definitions.OTHER_INSTANCE],
            )
        for owner in table.owners:
            queries.skip_orphans(table, owner)
        for column in table.distinct:
            queries.skip_duplicates(table, column)
    if needs_sessions:
        sessions, methods = legacy_sessions.derive_sessions()
        report.tallies["sessions"].derived += sessions
        report.tallies["mfa_amr_claims"].derived += methods
    for table in tables:
        tally = report.tallies[table.name]
        tally.reasons = queries.skip_reasons(table)
        tally.lost = queries.count_lost(table) if table.is_essential else 0
    conflicts.reject_shared_addresses()
    if not request.delete_missing_users:
        conflicts.reject_occupied_addresses()
    elif not queries.count_accepted(tables[0]):
        raise ImportRejected("the source has no users: every user here would be deleted")
    if not request.overwrite:
        conflicts.reject_if_in_use()
    report.warnings += conflicts.warnings()


def _write(tables: list[Table], report: ImportReport, *, request: ImportRequest, show: ShowProgress) -> None:
    if request.delete_missing_users:
        report.tallies["users"].deleted = queries.delete_users_missing_at_source()
    elif only_here := queries.users_missing_at_source():
        report.warnings.append(
            f"{len(only_here):,} users here are not at the source: created here, or deleted there since the last run"
            " (--delete-missing-users deletes them)"
        )
    # Deletions come first, so that deleted rows cannot conflict with new ones.
    for table in tables:
        report.tallies[table.name].deleted += queries.delete_missing_rows(table)
        queries.clear_reassigned_values(table)
    for table in tables:
        with _naming(table):
            _write_table(table, report.tallies[table.name], show=show)
    daily_counts.reset()
    if not request.dry_run:
        queries.advance_sequence()


def _write_table(table: Table, tally: Tally, *, show: ShowProgress) -> None:
    accepted, pages = queries.count_accepted(table), queries.pages(table)
    progress = show(f"rows of {table.name} written", accepted)
    reported = 0
    for first in range(0, pages, queries.PAGES_PER_BATCH):
        last = min(first + queries.PAGES_PER_BATCH, pages)
        new, changed = queries.write(table, first=first, last=last)
        tally.new += new
        tally.changed += changed
        progress.advance(accepted * last // pages - reported)
        reported = accepted * last // pages
    progress.finish()
    tally.unchanged = queries.count_written(table) - tally.new - tally.changed
    if tally.read + tally.derived != tally.new + tally.changed + tally.unchanged + tally.skipped:
        raise ImportRejected(f"{table.name}: not all of {accepted:,} rows were written")


def _tables_not_imported(snapshot: SourceDatabase, tables: list[Table]) -> Iterator[str]:
    imported = {table.name for table in tables}
    left_out = {table.name: table for table in table_definitions.TABLES if table.name not in imported}
    for name in sorted(set(snapshot.tables) - imported - table_definitions.INTERNAL_TABLES):
        if name in snapshot.unreadable:
            yield f"{name}: no right to read"
            continue
        number = snapshot.count(name)
        if not number:
            continue
        capability = table_definitions.UNSUPPORTED_TABLES.get(name)
        if name in left_out and not _is_installed(left_out[name]):
            yield f"{name}: {number:,} rows: the app {left_out[name].app} is not installed"
        elif name in left_out:
            yield f"{name}: {number:,} rows: use --with-audit-log to import them"
        elif capability:
            yield f"{name}: {number:,} rows: this server does not support {capability} yet"
        else:
            yield f"{name}: {number:,} rows: unknown table"


def _source_warnings(snapshot: SourceDatabase, tables: list[Table]) -> Iterator[str]:
    if snapshot.version > source_database.KNOWN_VERSION:
        yield f"the source is newer ({snapshot.version}) than the supported version ({source_database.KNOWN_VERSION})"
    for table in tables:
        source_columns = set(snapshot.tables.get(table.name, {}))
        if unknown := sorted(source_columns - set(table.columns) - table.ignored):
            yield f"{table.name}: unknown columns are not imported: {', '.join(unknown)}"


@contextlib.contextmanager
def _naming(table: Table) -> Iterator[None]:
    """Raise ImportRejected, with the name of the table, if the block cannot read or store a value."""
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise ImportRejected(f"{_error_text(error)} in {table.name}") from None


def _error_text(error: psycopg.Error) -> str:
    # The text of data errors quotes the value.
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        constraint = f", constraint {error.diag.constraint_name}" if error.diag.constraint_name else ""
        return f"nothing was written: {type(error).__name__}{constraint}"
    return f"nothing was written: {error.diag.message_primary or type(error).__name__}"

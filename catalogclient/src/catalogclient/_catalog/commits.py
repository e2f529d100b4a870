"""The operations of RestCatalog that change tables: commits, transactions, and finding out what became of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from catalogclient import _reconciliation
from catalogclient._catalog.core import CallOptions, MutationOptions
from catalogclient._catalog.tables import TableMethods
from catalogclient._identifiers import TableLike
from catalogclient._operations import commits, scans
from catalogclient._results import CommitTableResult
from catalogclient.types import CommitTableRequest, ReportMetricsRequest, TableRequirement, TableUpdate


class CommitMethods(TableMethods):
    """Commits."""

    def update_table(
        self,
        table: TableLike,
        request: CommitTableRequest | None = None,
        *,
        requirements: Sequence[TableRequirement] = (),
        updates: Sequence[TableUpdate] = (),
        **call: Unpack[MutationOptions],
    ) -> CommitTableResult:
        """Change a table if all requirements hold; without any, whatever others have done meanwhile.

        Raises NoSuchTableError, CommitFailedError when a requirement does not hold, and CommitStateUnknownError when
        the change may have been made: then neither send it again blindly nor delete the files it names, see
        reconcile_commit. Source: OpenAPI, `updateTable`.
        """
        return self._send(commits.one(table, request, requirements=requirements, updates=updates), **call)

    commit_table = update_table

    def commit_transaction(self, table_changes: Sequence[CommitTableRequest], **call: Unpack[MutationOptions]) -> None:
        """Change all tables or none; each change names its table by `identifier`. Raises as update_table."""
        self._send(commits.several(table_changes), **call)

    def reconcile_commit(
        self, table: TableLike, request: CommitTableRequest, **call: Unpack[CallOptions]
    ) -> CommitTableResult | None:
        """After CommitStateUnknownError: the table as it is if the commit is found in it, None if that is uncertain.

        Only a commit of one new snapshot, with or without `main` set to it, can be recognised.
        """
        snapshot_id = _reconciliation.only_snapshot(request)
        if snapshot_id is None:
            return None
        return _reconciliation.found(self.load_table_result(table, snapshots="all", **call), snapshot_id)

    def report_metrics(self, table: TableLike, report: ReportMetricsRequest, **call: Unpack[CallOptions]) -> None:
        """Tell the server what a scan or commit did. Sent once. Raises NoSuchTableError. Source: `reportMetrics`."""
        self._send(scans.report(table, report), **call)

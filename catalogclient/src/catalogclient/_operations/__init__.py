"""The operations of a catalog, written once as coroutines for RestCatalog and AsyncRestCatalog."""

from __future__ import annotations

from catalogclient._operations.commits import CommitOperations
from catalogclient._operations.scans import ScanOperations
from catalogclient._operations.views import ViewOperations


class CatalogOperations(CommitOperations, ScanOperations, ViewOperations):
    """All operations."""

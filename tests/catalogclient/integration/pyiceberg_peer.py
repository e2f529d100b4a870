"""PyIceberg as a second client of the same catalog."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tests.catalogclient.servers.running import CatalogServer


def connect(server: CatalogServer) -> Catalog:
    """Return a PyIceberg catalog of the server."""
    return load_catalog(server.name, **server.pyiceberg_properties())


def rows(*ids: int) -> pa.Table:
    """Return rows for the schema of the test tables."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("town", pa.string())])
    return pa.table({"id": ids, "town": [f"town {number}" for number in ids]}, schema=schema)

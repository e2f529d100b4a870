"""PyIceberg as a second client of the same catalog."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tests.catalogclient.servers.running import CatalogServer


def connect(server: CatalogServer) -> Catalog:
    """Returns a PyIceberg catalog of the server, with storage keys if the server has storage."""
    properties = server.pyiceberg_properties()
    if server.s3_url:
        properties |= {
            "s3.endpoint": server.s3_url,
            "s3.access-key-id": server.client_id,
            "s3.secret-access-key": server.client_secret,
            "s3.region": "us-east-1",
        }
    return load_catalog(server.name, **properties)


def rows(*ids: int) -> pa.Table:
    """Returns rows for the schema of the test tables."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("town", pa.string())])
    return pa.table({"id": ids, "town": [f"town {number}" for number in ids]}, schema=schema)

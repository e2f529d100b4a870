"""PyIceberg and catalogclient read each other's tables on the same server."""

from __future__ import annotations

import pytest

from catalogclient import RestCatalog, requirements, updates
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed")

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.types import LongType, StringType

from tests.catalogclient.integration import pyiceberg_peer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def test_both_clients_list_the_same_namespaces_and_tables(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    peer = pyiceberg_peer.connect(server)
    catalog.create_table(namespace, documents.table("local", owner="a"))
    peer.create_table((namespace, "remote"), schema=pa.schema([("id", pa.int64())]), properties={"owner": "b"})
    peer.create_namespace((namespace, "inner"), {"owner": "b"})

    assert {namespace.namespace for namespace in catalog.list_namespaces()} == set(peer.list_namespaces())
    assert {(*table.namespace, table.name) for table in catalog.list_tables(namespace)} == set(
        peer.list_tables(namespace)
    )
    for name in ("local", "remote"):
        table = peer.load_table((namespace, name))
        metadata = catalog.load_table((namespace, name))
        assert str(table.metadata.table_uuid) == metadata["table-uuid"]
        assert table.metadata.properties == metadata["properties"]
        assert table.location() == metadata["location"]


def test_pyiceberg_reads_columns_of_catalogclient(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    schema = pyiceberg_peer.connect(server).load_table((namespace, "orders")).schema()
    assert [(field.field_id, field.name, field.field_type, field.required) for field in schema.fields] == [
        (1, "id", LongType(), True),
        (2, "town", StringType(), False),
    ]


def test_pyiceberg_reads_commits_and_renames_of_catalogclient(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    peer = pyiceberg_peer.connect(server)
    catalog.create_table(namespace, documents.table("orders"))
    catalog.update_table((namespace, "orders"), updates=[updates.set_properties({"state": "new"})])
    catalog.rename_table((namespace, "orders"), (namespace, "bills"))
    assert peer.load_table((namespace, "bills")).properties["state"] == "new"
    with pytest.raises(NoSuchTableError):
        peer.load_table((namespace, "orders"))


def test_each_client_reads_snapshots_and_tags_of_the_other(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    server.need(Ability.FILES | Ability.HISTORY)
    catalog.create_table(namespace, documents.table("orders"))
    peer_table = pyiceberg_peer.connect(server).load_table((namespace, "orders"))
    peer_table.append(pyiceberg_peer.rows(1, 2))
    peer_table.append(pyiceberg_peer.rows(3))

    base = catalog.load_table((namespace, "orders"))
    assert [snapshot["summary"]["operation"] for snapshot in base["snapshots"]] == ["append", "append"]
    first = base["snapshots"][0]["snapshot-id"]
    changes = [updates.set_snapshot_ref("start", type="tag", snapshot_id=first)]
    catalog.update_table((namespace, "orders"), requirements=requirements.for_update(base, changes), updates=changes)
    peer_table.refresh()
    assert peer_table.scan().to_arrow().num_rows == 3
    assert peer_table.scan().use_ref("start").to_arrow()["id"].to_pylist() == [1, 2]
    only_named = catalog.load_table((namespace, "orders"), snapshots="refs")
    assert set(only_named["refs"]) == {"main", "start"}

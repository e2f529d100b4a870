"""The examples of the handover document read files of a real table with vended credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalogclient import RestCatalog
from tests.catalogclient.conftest import empty
from tests.catalogclient.documentation import blocks
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import CatalogServer

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed")

import pyarrow as pa
import pyarrow.parquet

from tests.catalogclient.integration import pyiceberg_peer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def catalog(seaweedfs: CatalogServer) -> Iterator[RestCatalog]:
    """Catalog with the table `sales.orders`, which has three rows in two files."""
    with seaweedfs.connect() as connected:
        connected.create_namespace("sales")
        connected.create_table("sales", documents.table("orders"))
        table = pyiceberg_peer.connect(seaweedfs).load_table(("sales", "orders"))
        table.append(pyiceberg_peer.rows(1, 2))
        table.append(pyiceberg_peer.rows(3))
        yield connected
        empty(connected, ("sales",))


def _run(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch, *titles: str) -> dict[str, Any]:
    """Run the examples of the sections in order without other credentials, and return their names."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    names: dict[str, Any] = {"catalog": catalog}
    for title in titles:
        for block in blocks.section(blocks.HANDOVER, title, "python"):
            exec(compile(block, title, "exec"), names)
    return names


def test_output_contains_no_secret(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _run(catalog, monkeypatch, "Load")["config"]
    secret = config["s3.secret-access-key"]
    assert secret
    assert secret not in f"{config!r}{config!s}"


def test_pyiceberg_reads_rows_and_files(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    names = _run(catalog, monkeypatch, "Load", "PyIceberg")
    assert sorted(names["rows"]["id"].to_pylist()) == [2, 3]
    assert names["metadata_bytes"].startswith(b"{")


def test_pyarrow_reads_files(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    names = _run(catalog, monkeypatch, "Load", "pyarrow")
    assert len(names["data_files"]) == 2
    read = [pyarrow.parquet.read_table(path, filesystem=names["filesystem"]) for path in names["data_files"]]
    assert sorted(pa.concat_tables(read)["town"].to_pylist()) == ["town 1", "town 2", "town 3"]


def test_credentials_are_limited_to_one_table(
    seaweedfs: CatalogServer, catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = catalog.create_table("sales", documents.table("secret"))
    names = _run(catalog, monkeypatch, "Load", "pyarrow")
    metadata = f"{other['location'].removeprefix('s3://')}/metadata/v1.metadata.json"
    with pytest.raises(OSError, match=r"(?i)access|denied|forbidden"):
        names["filesystem"].open_input_stream(metadata)


def test_duckdb_queries_rows_and_files(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed")
    names = _run(catalog, monkeypatch, "Load", "PyIceberg", "pyarrow", "DuckDB")
    assert names["total"] == [(3, 3)]
    assert names["towns"] == [("town 1",), ("town 2",), ("town 3",)]


def test_duckdb_reads_with_a_secret(catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    # DuckDB would download its extension. The package contains the same signed file.
    package = pytest.importorskip("duckdb_extension_httpfs", reason="DuckDB's extension httpfs is not installed")
    extension = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}" / "httpfs.duckdb_extension"
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    names = _run(catalog, monkeypatch, "Load", "PyIceberg", "pyarrow", "DuckDB")
    names["create_secret"](connection, "orders")
    query = f"select count(*) from read_parquet('{names['location']}/data/*.parquet')"
    assert connection.execute(query).fetchall() == [(3,)]

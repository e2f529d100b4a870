"""Vended credentials of a real server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from catalogclient import RestCatalog, credentials
from tests.catalogclient.conftest import empty
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import CatalogServer

SECRETS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


@pytest.fixture
def vending(seaweedfs: CatalogServer) -> Iterator[RestCatalog]:
    with seaweedfs.connect(access_delegation=["vended-credentials"]) as catalog:
        catalog.create_namespace("vending")
        yield catalog
        empty(catalog, ("vending",))


def test_credentials_are_in_the_result_and_hidden_in_repr(vending: RestCatalog) -> None:
    created = vending.create_table_result("vending", documents.table("orders"))
    loaded = vending.load_table_result(("vending", "orders"))
    for result in (created, loaded):
        [credential] = result.storage_credentials
        assert result.metadata["location"].startswith(credential.prefix)
        for key in SECRETS:
            assert credential.config[key]
            for shown in (repr(result), str(result), repr(credential), repr(result.config)):
                assert credential.config[key] not in shown
    assert not set(vending.load_table(("vending", "orders"))) & {"config", "storage-credentials"}


def test_credentials_are_selected_by_location(vending: RestCatalog) -> None:
    result = vending.create_table_result("vending", documents.table("orders"))
    location = result.metadata["location"]
    chosen = credentials.select_credential(result.storage_credentials, f"{location}/data/1.parquet")
    assert chosen is not None
    assert chosen.prefix == location
    assert credentials.select_credential(result.storage_credentials, "s3://elsewhere/x") is None
    config = credentials.effective_config(result)
    assert config["s3.access-key-id"] == chosen.config["s3.access-key-id"]
    assert config["s3.endpoint"].startswith("http://127.0.0.1:")
    ends = credentials.expires_at(config)
    assert ends is not None
    assert dt.timedelta(minutes=50) < ends - dt.datetime.now(dt.UTC) <= dt.timedelta(hours=1)


def test_credentials_are_vended_only_on_request(vending: RestCatalog) -> None:
    vending.create_table("vending", documents.table("orders"))
    unasked = vending.load_table_result(("vending", "orders"), access_delegation=None)
    assert unasked.storage_credentials == []
    assert not set(SECRETS) & set(unasked.config)


def test_credentials_come_from_a_load_without_a_credentials_endpoint(vending: RestCatalog) -> None:
    vending.create_table("vending", documents.table("orders"))
    [credential] = vending.load_credentials(("vending", "orders"), fallback=True)
    assert set(SECRETS) <= set(credential.config)

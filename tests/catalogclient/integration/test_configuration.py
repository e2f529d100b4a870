"""Configuration of every server, and responses to unsupported operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalogclient import CatalogError, Endpoint, NoSuchNamespaceError, RestCatalog
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer


def test_the_configuration_is_read(server: CatalogServer, catalog: RestCatalog) -> None:
    result = catalog.load_config()
    assert result is catalog.load_config()
    assert (result.endpoints is not None) == server.can(Ability.ENDPOINTS)
    assert catalog.prefix() == (server.warehouse or server.prefix or server.configured_prefix)
    assert result.idempotency_key_lifetime is None


def test_only_listed_endpoints_are_supported(server: CatalogServer, catalog: RestCatalog) -> None:
    assert catalog.supports("POST /v1/{prefix}/transactions/commit")
    assert catalog.supports(Endpoint.LOAD_TABLE)
    assert catalog.supports(Endpoint.TABLE_EXISTS) == server.can(Ability.ENDPOINTS)
    assert not catalog.supports(Endpoint.LIST_FUNCTIONS)


def test_the_configuration_is_requested_with_config_mode_always(server: CatalogServer, namespace: str) -> None:
    with server.connect(config_mode="always") as catalog:
        assert catalog.namespace_exists(namespace)


@pytest.mark.parametrize(
    "call",
    [
        lambda catalog, table: catalog.list_functions(table[0]),
        lambda catalog, table: catalog.load_function(table),
        lambda catalog, table: catalog.unregister_table(table),
        lambda catalog, table: catalog.load_credentials(table),
        lambda catalog, table: catalog.sign_request(
            table, {"region": "us-east-1", "uri": "s3://b/k", "method": "GET", "headers": {}}
        ),
    ],
    ids=["list_functions", "load_function", "unregister_table", "load_credentials", "sign_request"],
)
def test_an_unsupported_operation_fails_and_changes_nothing(
    catalog: RestCatalog, namespace: str, call: Callable[[RestCatalog, tuple[str, str]], object]
) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    with pytest.raises(CatalogError) as caught:
        call(catalog, (namespace, "orders"))
    assert caught.value.status in {400, 404}
    assert caught.value.attempts == 1
    assert catalog.table_exists((namespace, "orders"))


def test_an_unknown_namespace_is_reported(server: CatalogServer, catalog: RestCatalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_metadata("no_such_namespace")
    assert not catalog.namespace_exists("no_such_namespace")
    assert not catalog.table_exists("no_such_namespace.orders")
    assert not catalog.view_exists("no_such_namespace.orders")
    if server.can(Ability.ENDPOINTS):
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_namespaces(parent="no_such_namespace")

"""Tables on every server."""

from __future__ import annotations

import pytest

from catalogclient import (
    AlreadyExistsError,
    CatalogError,
    NoSuchTableError,
    RestCatalog,
    generate_idempotency_key,
    requirements,
    types,
    updates,
)
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer


def test_creates_loads_and_drops_a_table(catalog: RestCatalog, namespace: str) -> None:
    table = (namespace, "orders")
    assert not catalog.table_exists(table)
    created = catalog.create_table_result(namespace, documents.table("orders", owner="sales"))
    assert created.metadata["properties"]["owner"] == "sales"
    assert created.metadata_location is not None
    assert catalog.table_exists(table)
    loaded = catalog.load_table(table)
    assert loaded["table-uuid"] == created.metadata["table-uuid"]
    assert [(field["name"], field["type"]) for field in loaded["schemas"][0]["fields"]] == [
        ("id", "long"),
        ("town", "string"),
    ]
    assert [table.name for table in catalog.list_tables(namespace)] == ["orders"]
    catalog.drop_table(table)
    assert not catalog.table_exists(table)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(table)
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(table)


def test_creating_an_existing_table(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    created = catalog.create_table(namespace, documents.table("orders"))
    if server.can(Ability.CREATES_ONCE):
        with pytest.raises(AlreadyExistsError):
            catalog.create_table(namespace, documents.table("orders"))
    again = catalog.create_table_if_not_exists(namespace, documents.table("orders"))
    assert again["table-uuid"] == created["table-uuid"]


def test_a_staged_table_appears_with_its_first_commit(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    server.need(Ability.STAGES)
    staged = catalog.create_table_result(namespace, {**documents.table("staged"), "stage-create": True})
    assert (staged.metadata_location is None) == server.can(Ability.STAGED_CREATE)
    assert not catalog.table_exists((namespace, "staged"))
    done = catalog.update_table(
        (namespace, "staged"), requirements=requirements.for_create(), updates=updates.from_staged(staged.metadata)
    )
    assert done.metadata["table-uuid"] == staged.metadata["table-uuid"]
    assert catalog.table_exists((namespace, "staged"))


def test_renames_a_table_and_moves_it_to_another_namespace(catalog: RestCatalog, namespace: str) -> None:
    uuid = catalog.create_table(namespace, documents.table("old"))["table-uuid"]
    catalog.create_namespace((namespace, "inner"))
    catalog.rename_table((namespace, "old"), (namespace, "inner", "new"))
    assert not catalog.table_exists((namespace, "old"))
    assert catalog.load_table((namespace, "inner", "new"))["table-uuid"] == uuid


def test_a_table_is_registered_from_a_metadata_file(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    server.need(Ability.REGISTER_TABLE)
    created = catalog.create_table_result(namespace, documents.table("orders"))
    assert created.metadata_location is not None
    request: types.RegisterTableRequest = {"name": "again", "metadata-location": created.metadata_location}
    result = catalog.register_table_result(namespace, request)
    assert result.metadata["table-uuid"] == created.metadata["table-uuid"]
    assert catalog.table_exists((namespace, "again"))
    with pytest.raises(AlreadyExistsError):
        catalog.register_table(namespace, request)


def test_a_missing_metadata_file_is_reported_with_the_servers_message(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    server.need(Ability.REGISTER_TABLE)
    location = catalog.create_table_result(namespace, documents.table("orders")).metadata_location or ""
    request: types.RegisterTableRequest = {
        "name": "again",
        "metadata-location": f"{location.rpartition('/')[0]}/lost.metadata.json",
    }
    with pytest.raises(CatalogError) as caught:
        catalog.register_table(namespace, request)
    assert ("key does not exist" if server.name == "nessie" else "lost.metadata.json") in str(caught.value)
    # The operation decides about the class of the error. `type` does not name a namespace.
    assert caught.value.type in {"NotFoundException", "BadRequestException", "IllegalArgumentException"}
    assert not catalog.table_exists((namespace, "again"))


def test_an_unchanged_table_returns_304(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    first = catalog.load_table_result((namespace, "orders"))
    assert (first.etag is not None) == server.can(Ability.ETAGS)
    if first.etag is None:
        return
    assert catalog.load_table((namespace, "orders"), if_none_match=first.etag) is None
    catalog.update_table((namespace, "orders"), updates=[updates.set_properties({"a": "1"})])
    changed = catalog.load_table_result((namespace, "orders"), if_none_match=first.etag)
    assert changed is not None
    assert changed.etag != first.etag
    assert changed.metadata["properties"]["a"] == "1"


def test_a_repeated_drop_returns_the_first_outcome(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    key = generate_idempotency_key()
    catalog.drop_table((namespace, "orders"), idempotency_key=key)
    if server.can(Ability.REPLAY):
        catalog.drop_table((namespace, "orders"), idempotency_key=key)
    else:
        with pytest.raises(NoSuchTableError):
            catalog.drop_table((namespace, "orders"), idempotency_key=key)


def test_pages_contain_every_table_once(catalog: RestCatalog, namespace: str) -> None:
    expected = [f"t{number}" for number in range(5)]
    for name in expected:
        catalog.create_table(namespace, documents.table(name))
    assert sorted(table.name for table in catalog.iter_tables(namespace, page_size=2)) == expected
    assert sorted(table.name for table in catalog.iter_tables(namespace)) == expected


def test_metrics_reports_are_accepted(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    server.need(Ability.REPORTS)
    catalog.create_table(namespace, documents.table("orders"))
    catalog.report_metrics(
        (namespace, "orders"),
        {
            "report-type": "commit-report",
            "table-name": "orders",
            "snapshot-id": 1,
            "sequence-number": 1,
            "operation": "append",
            "metrics": {"total-duration": {"time-unit": "nanoseconds", "count": 1, "total-duration": 5}},
            "metadata": {},
        },
    )

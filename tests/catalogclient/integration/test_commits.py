"""Commits, conflicts, transactions and many writers on every server."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from catalogclient import (
    BadRequestError,
    CatalogError,
    CommitFailedError,
    CommitStateUnknownError,
    RestCatalog,
    RetryPolicy,
    UnprocessableEntityError,
    changes,
    generate_idempotency_key,
    get_current_schema,
    requirements,
    types,
    updates,
)
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer

WRITERS = 20


def test_a_commit_with_a_failed_requirement_changes_nothing(catalog: RestCatalog, namespace: str) -> None:
    table = (namespace, "orders")
    base = catalog.create_table(namespace, documents.table("orders"))
    changes = [updates.set_properties({"a": "1"})]
    done = catalog.commit_table(table, requirements=requirements.for_update(base, changes), updates=changes)
    assert done.metadata["properties"]["a"] == "1"
    wrong = [requirements.assert_table_uuid("00000000-0000-4000-8000-000000000000")]
    with pytest.raises(CommitFailedError) as caught:
        catalog.update_table(table, requirements=wrong, updates=[updates.set_properties({"a": "2"})])
    assert caught.value.is_conflict
    assert catalog.load_table(table)["properties"]["a"] == "1"


def test_only_one_of_two_writers_adds_a_column(catalog: RestCatalog, namespace: str) -> None:
    table = (namespace, "orders")
    base = catalog.create_table(namespace, documents.table("orders"))
    wider: Any = {
        "type": "struct",
        "schema-id": 1,
        "fields": [
            *documents.SCHEMA["fields"],
            {"id": 3, "name": "price", "type": "decimal(10, 2)", "required": False},
        ],
    }
    changes: list[types.TableUpdate] = [updates.add_schema(wider), updates.set_current_schema(-1)]
    conditions = requirements.for_update(base, changes)
    metadata = catalog.update_table(table, requirements=conditions, updates=changes).metadata
    current = next(schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"])
    assert [field["name"] for field in current["fields"]] == ["id", "town", "price"]
    with pytest.raises(CommitFailedError):
        catalog.update_table(table, requirements=conditions, updates=changes)


def test_an_unknown_update_is_rejected(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    unknown: Any = {"requirements": [], "updates": [{"action": "sing"}]}
    refusals = {"seaweedfs": BadRequestError, "lakana": UnprocessableEntityError}
    # Apache's server answers 500 to an unknown update, and a 500 leaves the outcome of a commit unknown.
    with pytest.raises(refusals.get(server.name, CommitStateUnknownError)):
        catalog.update_table((namespace, "orders"), unknown)


def test_a_commit_with_a_repeated_key_is_applied_once_if_the_server_supports_keys(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    table = (namespace, "orders")
    catalog.create_table(namespace, documents.table("orders"))
    key = generate_idempotency_key()
    changes = [updates.set_properties({"a": "1"})]
    first = catalog.update_table(table, updates=changes, idempotency_key=key)
    catalog.update_table(table, updates=[updates.remove_properties(["a"])])
    again = catalog.update_table(table, updates=changes, idempotency_key=key)
    replayed = server.can(Ability.REPLAY)
    assert (again.metadata_location == first.metadata_location) == replayed
    assert ("a" not in catalog.load_table(table)["properties"]) == replayed


def test_a_transaction_changes_all_tables_or_none(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    server.need(Ability.TRANSACTIONS)
    uuids = [catalog.create_table(namespace, documents.table(name))["table-uuid"] for name in ("a", "b")]

    def change(name: str, uuid: str, value: str) -> Any:
        return {
            "identifier": {"namespace": [namespace], "name": name},
            "requirements": [requirements.assert_table_uuid(uuid)],
            "updates": [updates.set_properties({"state": value})],
        }

    catalog.commit_transaction([change("a", uuids[0], "first"), change("b", uuids[1], "first")])
    assert _states(catalog, namespace) == ["first", "first"]
    with pytest.raises(CommitFailedError):
        catalog.commit_transaction([change("a", uuids[0], "second"), change("b", uuids[0], "second")])
    assert _states(catalog, namespace) == ["first", "first"]


def _states(catalog: RestCatalog, namespace: str) -> list[str]:
    return [catalog.load_table((namespace, name))["properties"]["state"] for name in ("a", "b")]


def test_successful_commits_of_twenty_writers_are_all_stored(catalog: RestCatalog, namespace: str) -> None:
    table = (namespace, "busy")
    catalog.create_table(namespace, documents.table("busy"))

    unknown = set()

    def write(number: int) -> str | None:
        try:
            catalog.update_table(table, updates=[updates.set_properties({f"writer-{number}": "done"})])
        except CommitFailedError:
            return None
        except CommitStateUnknownError:  # under load a server may answer 500
            unknown.add(f"writer-{number}")
            return None
        return f"writer-{number}"

    with ThreadPoolExecutor(WRITERS) as writers:
        done = {key for key in writers.map(write, range(WRITERS)) if key}
    assert done
    kept = {key for key in catalog.load_table(table)["properties"] if key.startswith("writer-")}
    assert done <= kept <= done | unknown


def test_one_of_twenty_writers_on_the_same_base_succeeds(catalog: RestCatalog, namespace: str) -> None:
    table = (namespace, "busy")
    base = catalog.create_table(namespace, documents.table("busy"))
    wider: Any = {**documents.SCHEMA, "schema-id": 1}
    wider["fields"] = [*wider["fields"], {"id": 3, "name": "price", "type": "double", "required": False}]
    changes: list[types.TableUpdate] = [updates.add_schema(wider), updates.set_current_schema(-1)]
    conditions = requirements.for_update(base, changes)

    def write(_: int) -> type[CatalogError] | None:
        try:
            catalog.update_table(table, requirements=conditions, updates=changes)
        except CatalogError as error:
            return type(error)
        return None

    with ThreadPoolExecutor(WRITERS) as writers:
        outcomes = list(writers.map(write, range(WRITERS)))
    # Under load a server may answer 500, which leaves the outcome of a commit unknown.
    assert set(outcomes) <= {None, CommitFailedError, CommitStateUnknownError}
    assert outcomes.count(None) <= 1 <= outcomes.count(None) + outcomes.count(CommitStateUnknownError)
    assert outcomes.count(CommitFailedError) >= WRITERS // 2


def test_changes_by_name_are_accepted_by_every_server(
    catalog: RestCatalog, namespace: str, server: CatalogServer
) -> None:
    catalog.create_table(namespace, documents.table("evolving"))
    table = (namespace, "evolving")
    point: types.StructType = {
        "type": "struct",
        "fields": [{"id": 1, "name": "x", "type": "int", "required": False}],
    }
    catalog.commit(table, changes.add_column("shape", point), changes.add_column("note", "string"))
    catalog.commit(
        table,
        changes.add_column("shape.y", "float"),
        changes.widen_type("shape.x", "long"),
        changes.rename_column("note", "remark"),
        changes.add_partition_field("remark", "bucket[4]"),
        changes.sort_by("remark", "desc"),
        updates.set_properties({"owner": "shop"}),
    )
    catalog.commit(table, changes.drop_partition_field("remark_bucket_4"), changes.unsorted())
    catalog.commit(table, changes.drop_column("remark"))
    metadata = catalog.load_table(table)
    schema = get_current_schema(metadata)
    assert schema is not None
    shape: Any = next(field for field in schema["fields"] if field["name"] == "shape")
    assert [(field["name"], field["type"]) for field in shape["type"]["fields"]] == [("x", "long"), ("y", "float")]
    ids = [shape["id"], *(field["id"] for field in shape["type"]["fields"])]
    assert len(set(ids)) == 3
    assert "remark" not in [field["name"] for field in schema["fields"]]
    assert metadata["properties"]["owner"] == "shop"


def test_concurrent_changes_by_name_all_succeed(catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("contended"))
    table = (namespace, "contended")
    patient = RetryPolicy(max_attempts=30, backoff_base=0.02, backoff_max=0.5)
    with ThreadPoolExecutor(4) as pool:
        options = dataclasses.replace(catalog._operations._options, retry=patient)
        with RestCatalog(options) as other:
            list(pool.map(lambda number: other.commit(table, changes.add_column(f"c{number}", "int")), range(8)))
    schema = get_current_schema(catalog.load_table(table))
    assert schema is not None
    assert {f"c{number}" for number in range(8)} <= {field["name"] for field in schema["fields"]}

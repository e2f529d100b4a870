"""Changes by column names, and commits that repeat after a conflict."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from catalogclient import (
    CatalogError,
    CommitFailedError,
    CommitStateUnknownError,
    InvalidArgumentError,
    NoSuchTableError,
    RetryPolicy,
    changes,
    requirements,
    updates,
)
from catalogclient.changes import Change, updates_for
from tests.catalogclient.conftest import AT_ONCE, Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

METADATA: Any = {
    "format-version": 2,
    "table-uuid": "u",
    "last-column-id": 12,
    "current-schema-id": 3,
    "schemas": [
        {"type": "struct", "schema-id": 1, "fields": []},
        {
            "type": "struct",
            "schema-id": 3,
            "identifier-field-ids": [1],
            "fields": [
                {"id": 1, "name": "id", "type": "int", "required": True},
                {"id": 2, "name": "town", "type": "string", "required": True},
                {"id": 3, "name": "price", "type": "decimal(9, 2)", "required": False},
                {
                    "id": 4,
                    "name": "address",
                    "required": False,
                    "type": {
                        "type": "struct",
                        "fields": [{"id": 5, "name": "zip", "type": "float", "required": True}],
                    },
                },
                {
                    "id": 6,
                    "name": "tags",
                    "required": False,
                    "type": {"type": "list", "element-id": 7, "element": "int", "element-required": True},
                },
                {
                    "id": 8,
                    "name": "rates",
                    "required": False,
                    "type": {
                        "type": "map",
                        "key-id": 9,
                        "key": {"type": "struct", "fields": [{"id": 11, "name": "k", "type": "int", "required": True}]},
                        "value-id": 10,
                        "value": "float",
                        "value-required": True,
                    },
                },
                {"id": 12, "name": "at", "type": "timestamptz", "required": False},
            ],
        },
    ],
    "partition-specs": [
        {"spec-id": 0, "fields": [{"source-id": 12, "field-id": 1000, "name": "at_day", "transform": "day"}]},
        {"spec-id": 1, "fields": [{"source-id": 2, "field-id": 1001, "name": "t8", "transform": "bucket[8]"}]},
    ],
    "default-spec-id": 0,
    "last-partition-id": 1001,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
}


FIELD_OF_LONG = {"id": 1, "name": "id", "type": "long", "required": True}


def after(*parts: Change) -> dict[str, Any]:
    """Return the fields of the new schema by name."""
    added: Any = updates_for(METADATA, parts)[0]
    return {field["name"]: field for field in added["schema"]["fields"]}


def test_several_changes_of_a_schema_are_one_new_schema() -> None:
    before = copy.deepcopy(METADATA)
    first, second, third = updates_for(
        METADATA,
        [
            changes.add_column("note", "string", doc="free text"),
            changes.rename_column("town", "city"),
            changes.widen_type("id", "long"),
            changes.drop_column("price"),
            changes.make_optional("city"),
            updates.set_properties({"a": "b"}),
        ],
    )
    assert first["action"] == "add-schema"
    schema = first["schema"]
    assert (schema["schema-id"], schema["identifier-field-ids"]) == (4, [1])
    assert [field["name"] for field in schema["fields"]] == ["id", "city", "address", "tags", "rates", "at", "note"]
    assert schema["fields"][0]["type"] == "long"
    assert not schema["fields"][1]["required"]
    note = {"id": 13, "name": "note", "type": "string", "required": False, "doc": "free text"}
    assert schema["fields"][-1] == note
    assert second == updates.set_current_schema()
    assert third == updates.set_properties({"a": "b"})
    assert before == METADATA


def test_nested_paths() -> None:
    fields = after(
        changes.widen_type("address.zip", "double"),
        changes.make_optional(("address", "zip")),
        changes.add_column("address.street", "string"),
        changes.widen_type("tags.element", "long"),
        changes.make_optional("tags.element"),
        changes.widen_type("rates.value", "double"),
        changes.make_optional("rates.value"),
        changes.rename_column("address.zip", "code"),
    )
    code, street = fields["address"]["type"]["fields"]
    assert (code["name"], code["type"], code["required"], code["id"]) == ("code", "double", False, 5)
    assert (street["name"], street["id"]) == ("street", 13)
    assert fields["tags"]["type"] == {"type": "list", "element-id": 7, "element": "long", "element-required": False}
    assert (fields["rates"]["type"]["value"], fields["rates"]["type"]["value-required"]) == ("double", False)


def test_an_added_nested_type_gets_new_ids() -> None:
    point: Any = {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "x", "type": "int", "required": True},
            {
                "id": 1,
                "name": "y",
                "required": False,
                "type": {"type": "list", "element-id": 1, "element": "int", "element-required": False},
            },
        ],
    }
    shape = after(changes.add_column("shape", point))["shape"]
    x, y = shape["type"]["fields"]
    assert (shape["id"], x["id"], y["id"], y["type"]["element-id"]) == (13, 14, 15, 16)
    assert point["fields"][0]["id"] == 1


@pytest.mark.parametrize(
    "change",
    [
        changes.add_column("town", "string"),
        changes.add_column("nothing.x", "string"),
        changes.add_column("town.x", "string"),
        changes.add_column("rates.key.x", "string"),
        changes.add_column("", "string"),
        changes.add_column(("a", ""), "string"),
        changes.rename_column("nothing", "x"),
        changes.rename_column("town", "id"),
        changes.rename_column("tags.element", "x"),
        changes.widen_type("id", "int "),
        changes.widen_type("id", "string"),
        changes.widen_type("town", "long"),
        changes.widen_type("price", "decimal(9, 3)"),
        changes.widen_type("price", "decimal(8, 2)"),
        changes.widen_type("rates.key.k", "long"),
        changes.make_optional("id"),
        changes.make_optional("rates.key"),
        changes.make_optional("rates.key.k"),
        changes.drop_column("id"),
        changes.drop_column("at"),
        changes.drop_column("tags.element"),
        changes.drop_column("rates.key.k"),
        changes.add_partition_field("town", "day"),
        changes.add_partition_field("tags"),
        changes.add_partition_field("town", "bucket"),
        changes.add_partition_field("town", "bucket[0]"),
        changes.add_partition_field("town", "hash"),
        changes.add_partition_field("at", "day", name="other"),
        changes.add_partition_field("town", "truncate[2]", name="id"),
        changes.add_partition_field("town", "truncate[2]", name="at_day"),
        changes.drop_partition_field("nothing"),
        changes.sort_by("tags"),
        changes.sort_by("town", "up"),  # type: ignore[arg-type]
    ],
)
def test_forbidden_changes(change: Change) -> None:
    with pytest.raises(InvalidArgumentError):
        updates_for(METADATA, [change])


def test_a_source_of_the_sort_order_cannot_be_dropped() -> None:
    with pytest.raises(InvalidArgumentError, match="sort order"):
        updates_for(METADATA, [changes.sort_by("town"), changes.drop_column("town")])


def test_decimal_precision_can_increase() -> None:
    assert after(changes.widen_type("price", "decimal(12,2)"))["price"]["type"] == "decimal(12,2)"


def test_partition_fields() -> None:
    add, use = updates_for(
        METADATA,
        [
            changes.drop_partition_field("at_day"),
            changes.add_partition_field("at", "hour"),
            changes.add_partition_field("town", "bucket[8]"),
            changes.add_partition_field("town"),
            changes.add_partition_field("address.zip", name="zip"),
        ],
    )
    assert add["action"] == "add-spec"
    assert add["spec"]["spec-id"] == 2
    fields = [
        (field["name"], field["source-id"], field["transform"], field["field-id"]) for field in add["spec"]["fields"]
    ]
    assert fields == [
        ("at_hour", 12, "hour", 1002),
        ("town_bucket_8", 2, "bucket[8]", 1001),
        ("town", 2, "identity", 1003),
        ("zip", 5, "identity", 1004),
    ]
    assert use == updates.set_default_spec()


def test_an_existing_spec_or_sort_order_is_reused() -> None:
    again: list[Any] = [
        changes.drop_partition_field("at_day"),
        changes.add_partition_field("town", "bucket[8]", name="t8"),
    ]
    assert updates_for(METADATA, again) == [updates.set_default_spec(1)]
    ordered: Any = {
        **METADATA,
        "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [{"source-id": 1}]}],
    }
    ordered["default-sort-order-id"] = 1
    assert updates_for(ordered, [changes.unsorted()]) == [updates.set_default_sort_order(0)]


def test_format_version_1_keeps_dropped_partition_fields_as_void() -> None:
    old: Any = {**METADATA, "format-version": 1}
    add: Any = updates_for(old, [changes.drop_partition_field("at_day")])[0]
    assert add["spec"]["fields"] == [{"source-id": 12, "field-id": 1000, "name": "at_day", "transform": "void"}]


def test_sort_orders() -> None:
    add, use = updates_for(METADATA, [changes.sort_by("at", "desc"), changes.sort_by("town", transform="truncate[3]")])
    assert add["action"] == "add-sort-order"
    assert add["sort-order"] == {
        "order-id": 1,
        "fields": [
            {"source-id": 12, "transform": "identity", "direction": "desc", "null-order": "nulls-last"},
            {"source-id": 2, "transform": "truncate[3]", "direction": "asc", "null-order": "nulls-first"},
        ],
    }
    assert use == updates.set_default_sort_order()


@pytest.mark.parametrize(
    "metadata", [{}, {"schemas": 5}, {**METADATA, "schemas": []}, {**METADATA, "partition-specs": 5}]
)
def test_incomplete_metadata_is_rejected(metadata: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        updates_for(metadata, [changes.add_column("x", "int")])


def loaded(**more: Any) -> Response:
    return in_json({"metadata-location": "s3://b/0.json", "metadata": {**METADATA, **more}})


CONFLICT = in_json({"error": {"message": "m", "type": "CommitFailedException", "code": 409}}, status=409)


def sent(peer: HttpPeer) -> list[str]:
    return [request.method for request in peer.received]


def test_a_commit_loads_and_derives_the_requirements(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(loaded())
    catalog = connect(access_delegation=["vended-credentials"])
    result = catalog.commit("a.t", changes.add_column("x", "int"), updates.set_properties({"a": "b"}))
    assert result.metadata_location == "s3://b/0.json"
    assert sent(peer) == ["GET", "POST"]
    assert peer.received[0].headers["X-Iceberg-Access-Delegation"] is None
    body = peer.received[1].json()
    assert [requirement["type"] for requirement in body["requirements"]] == [
        *("assert-table-uuid", "assert-last-assigned-field-id", "assert-current-schema-id")
    ]
    assert [update["action"] for update in body["updates"]] == ["add-schema", "set-current-schema", "set-properties"]


def test_a_conflict_is_repeated_on_the_new_metadata(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(loaded(), CONFLICT, loaded(**{"last-column-id": 40}), loaded())
    connect().commit("a.t", changes.add_column("x", "int"))
    assert sent(peer) == ["GET", "POST", "GET", "POST"]
    first, second = (request.json() for request in peer.received if request.method == "POST")
    assert first["updates"][0]["schema"]["fields"][-1]["id"] == 13
    assert second["updates"][0]["schema"]["fields"][-1]["id"] == 41
    keys = [request.headers["Idempotency-Key"] for request in peer.received if request.method == "POST"]
    assert len(set(keys)) == 2


SNAPSHOT: Any = {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 2, "manifest-list": "s3://m", "summary": {}}
WIDER: Any = {"type": "struct", "fields": [{"id": 13, "name": "x", "type": "int", "required": False}]}
DEPENDENT: list[list[Any]] = [
    [updates.add_snapshot(SNAPSHOT), updates.set_snapshot_ref("main", snapshot_id=2)],
    [updates.add_snapshot(SNAPSHOT)],
    [updates.set_snapshot_ref("v1", snapshot_id=1, type="tag")],
    [updates.remove_snapshots([1])],
    [updates.remove_snapshot_ref("main")],
    [updates.add_schema(WIDER), updates.set_current_schema()],
    [updates.set_current_schema(1)],
    [updates.remove_schemas([1])],
    [updates.add_spec({"spec-id": 2, "fields": []}), updates.set_default_spec()],
    [updates.set_default_spec(1)],
    [updates.set_default_sort_order(0)],
    [{"action": "future-update"}],
]


@pytest.mark.parametrize("plain", DEPENDENT, ids=lambda plain: plain[0]["action"])
def test_updates_that_depend_on_the_metadata_are_not_repeated_after_a_conflict(
    peer: HttpPeer, connect: Connect, plain: list[Any]
) -> None:
    peer.respond(loaded(), CONFLICT, loaded(refs={"main": {"type": "branch", "snapshot-id": 3}}))
    with pytest.raises(CommitFailedError) as caught:
        connect().commit("a.t", changes.add_column("y", "int"), updates.set_properties({"a": "b"}), *plain)
    assert caught.value.message == "m"
    (note,) = caught.value.__notes__
    assert note.startswith(f"not repeated: {plain[0]['action']} depends")
    assert sent(peer) == ["GET", "POST"]


def test_updates_that_do_not_depend_on_the_metadata_are_repeated_after_a_conflict(
    peer: HttpPeer, connect: Connect
) -> None:
    independent = updates.combine(
        updates.set_properties({"a": "b"}),
        updates.remove_properties(["c"]),
        updates.set_location("s3://x"),
        updates.upgrade_format_version(3),
    )
    peer.respond(loaded(), CONFLICT, loaded(**{"last-column-id": 40}), loaded())
    connect().commit("a.t", changes.add_column("x", "int"), *independent)
    first, second = (request.json()["updates"] for request in peer.received if request.method == "POST")
    # The format version is upgraded before the schema, which may use it.
    upgrade, add, use = first[:3]
    assert [upgrade, *first[3:]] == [second[0], *second[3:]] == [independent[3], *independent[:3]]
    assert use == second[2] == updates.set_current_schema()
    assert add["schema"]["fields"][-1]["id"] == 13
    assert second[1]["schema"]["fields"][-1]["id"] == 41


def test_conflicts_are_repeated_max_attempts_times(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(*[loaded(), CONFLICT] * 5)
    with pytest.raises(CommitFailedError):
        connect(retry=RetryPolicy(max_attempts=3, backoff_base=0.001)).commit("a.t", updates.set_location("s3://x"))
    assert sent(peer) == ["GET", "POST"] * 3


def test_a_change_that_no_longer_applies_ends_the_commit(peer: HttpPeer, connect: Connect) -> None:
    fields = [*METADATA["schemas"][1]["fields"], {"id": 13, "name": "x", "type": "int", "required": False}]
    changed = {"schemas": [{**METADATA["schemas"][1], "fields": fields}]}
    peer.respond(loaded(), CONFLICT, loaded(**changed))
    with pytest.raises(InvalidArgumentError, match="exists"):
        connect().commit("a.t", changes.add_column("x", "int"))
    assert sent(peer) == ["GET", "POST", "GET"]


@pytest.mark.parametrize("outcome", [Response(raw=b"", close=True), Response(body=b"<html>")])
@pytest.mark.parametrize("properties", [{"a": "b"}, {"a": "other"}])
def test_an_unknown_outcome_is_resolved_by_loading_the_table(
    peer: HttpPeer, connect: Connect, properties: dict[str, str], outcome: Response
) -> None:
    peer.respond(loaded(), outcome, loaded(properties=properties))
    catalog = connect(retry=AT_ONCE)
    change = updates.set_properties({"a": "b"})
    if properties == {"a": "b"}:
        assert catalog.commit("a.t", change).metadata["properties"] == properties
    else:
        with pytest.raises(CatalogError) as caught:
            catalog.commit("a.t", change)
        assert caught.value.is_commit_state_unknown
    assert sent(peer) == ["GET", "POST", "GET"]


SPEC: Any = METADATA["partition-specs"][1]
AFTERWARDS: list[tuple[Any, dict[str, Any], bool]] = [
    ([updates.add_spec(SPEC), updates.set_default_spec()], {}, False),
    ([updates.add_spec(SPEC), updates.set_default_spec()], {"default-spec-id": 1}, True),
    ([updates.set_default_spec(1)], {"default-spec-id": 1}, True),
    ([updates.add_sort_order(METADATA["sort-orders"][0]), updates.set_default_sort_order()], {}, True),
    ([updates.set_default_sort_order(1)], {}, False),
    ([updates.set_current_schema(1)], {}, False),
    ([updates.upgrade_format_version(3)], {}, False),
    ([updates.upgrade_format_version(3)], {"format-version": 3}, True),
    ([updates.set_snapshot_ref("main", snapshot_id=2)], {"current-snapshot-id": 2}, True),
    ([updates.remove_snapshots([1])], {}, False),
    # Odd metadata does not hide that the outcome is unknown.
    ([updates.add_spec(SPEC)], {"partition-specs": None}, False),
    ([updates.set_snapshot_ref("main", snapshot_id=2)], {"refs": 5}, False),
]


@pytest.mark.parametrize(("plain", "state", "applied"), AFTERWARDS)
def test_a_commit_was_applied_if_the_table_has_all_its_effects(
    peer: HttpPeer, connect: Connect, plain: Any, state: dict[str, Any], applied: bool
) -> None:
    peer.respond(loaded(), Response(status=504), loaded(**state))
    with contextlib.nullcontext() if applied else pytest.raises(CommitStateUnknownError):
        connect().commit("a.t", *plain)


def test_an_unknown_outcome_stays_unknown_if_the_table_cannot_be_loaded(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(loaded(), Response(status=504), Response(status=403))
    with pytest.raises(CommitStateUnknownError):
        connect().commit("a.t", updates.set_properties({"a": "b"}))


def test_a_table_in_the_new_state_is_not_committed(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(loaded())
    assert connect().commit("a.t", changes.widen_type("id", "int")).metadata_location == "s3://b/0.json"
    assert sent(peer) == ["GET"]


def test_base_replaces_the_first_load(peer: HttpPeer, connect: Connect) -> None:
    base: Any = {**METADATA, "refs": {"main": {"type": "branch", "snapshot-id": 1}}}
    peer.respond(CONFLICT, loaded(**{"last-column-id": 40}), loaded())
    with pytest.raises(CommitFailedError):
        connect().commit("a.t", *DEPENDENT[0], base=base)
    assert sent(peer) == ["POST"]
    assert peer.received[0].json()["requirements"][1] == requirements.assert_ref_snapshot_id("main", 1)
    # A change by name is computed again from the state after the conflict.
    peer.respond(CONFLICT, loaded(**{"last-column-id": 40}), loaded())
    connect().commit("a.t", changes.add_column("x", "int"), base=base)
    assert sent(peer)[1:] == ["POST", "GET", "POST"]
    assert peer.received[-1].json()["updates"][0]["schema"]["fields"][-1]["id"] == 41


def test_a_change_without_effect_on_the_base_is_applied_to_the_current_state(peer: HttpPeer, connect: Connect) -> None:
    base: Any = {**METADATA, "schemas": [{**METADATA["schemas"][1], "fields": [FIELD_OF_LONG]}]}
    peer.respond(loaded())
    connect().commit("a.t", changes.widen_type("id", "long"), base=base)
    assert sent(peer) == ["GET", "POST"]


def test_a_missing_table(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=404))
    with pytest.raises(NoSuchTableError):
        connect().commit("a.t", updates.set_properties({"a": "b"}))

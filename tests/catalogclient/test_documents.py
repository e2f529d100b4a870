"""Builders and helpers for documents."""

from __future__ import annotations

import inspect
import typing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import catalogclient
from catalogclient import (
    DecimalType,
    FixedType,
    InvalidArgumentError,
    LoadTableResult,
    SecretDict,
    StorageCredential,
    credentials,
    current_snapshot,
    current_snapshot_id,
    effective_config,
    expressions,
    get_current_schema,
    is_decimal_type,
    is_fixed_type,
    parse_decimal_type,
    parse_fixed_type,
    ref,
    requirements,
    select_credential,
    snapshot_by_id,
    types,
    types_equal,
    updates,
)
from catalogclient.types import TableMetadata, TableRequirement, TableUpdate, ViewUpdate
from tests.catalogclient.conftest import Connect, untimed
from tests.fakes.http_peer import HttpPeer, Response, in_json

SCHEMA: Any = {"type": "struct", "schema-id": 3, "fields": []}
METADATA: TableMetadata = {
    "format-version": 2,
    "table-uuid": "u",
    "location": "s3://b/t",
    "properties": {"k": "v"},
    "schemas": [{"type": "struct", "fields": [], "schema-id": 2}, SCHEMA],
    "current-schema-id": 3,
    "last-column-id": 9,
    "partition-specs": [{"spec-id": 4, "fields": []}],
    "default-spec-id": 4,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "snapshots": [{"snapshot-id": 7, "timestamp-ms": 1, "manifest-list": "m", "summary": {"operation": "append"}}],
    "refs": {
        "main": {"type": "branch", "snapshot-id": 7},
        "audit": {"type": "branch", "snapshot-id": 8},
        "v1": {"type": "tag", "snapshot-id": 6},
    },
    "current-snapshot-id": 7,
}


def kinds(union: Any, discriminator: str) -> set[str]:
    result = set()
    for document in typing.get_args(union) or (union,):
        annotation = typing.get_type_hints(document)[discriminator]
        result.add(typing.get_args(annotation)[0])
    return result


def built(module: Any, discriminator: str) -> set[str]:
    """Return the results of the builders of a module by name."""
    result = {name.replace("_", "-") for name, _ in inspect.getmembers(module, inspect.isfunction)}
    return {text for text in result if text.startswith(("add-", "assert-", "assign-", "remove-", "set-", "upgrade-"))}


def test_libraries_can_evaluate_the_annotations_of_every_document() -> None:
    documents = [document for document in vars(types).values() if typing.is_typeddict(document)]
    assert len(documents) > 60
    for document in documents:
        assert set(typing.get_type_hints(document)) == document.__required_keys__ | document.__optional_keys__


def test_there_is_a_builder_for_every_update_and_requirement() -> None:
    actions = kinds(TableUpdate, "action") | kinds(ViewUpdate, "action")
    assert len(kinds(TableUpdate, "action")) == 23
    assert built(updates, "action") == actions
    assert len(kinds(TableRequirement, "type")) == 8
    assert built(requirements, "type") == kinds(TableRequirement, "type") | {"assert-view-uuid"}


ARGUMENTS: dict[str, Any] = {
    "uuid": "u", "format_version": 2, "schema": SCHEMA, "schema_id": 1, "spec": {"fields": []}, "spec_id": 1,
    "sort_order": {"order-id": 1, "fields": []}, "sort_order_id": 1, "snapshot": METADATA["snapshots"][0],
    "name": "main", "snapshot_id": 7, "snapshot_ids": [7], "location": "l", "updates": {"a": "b"}, "removals": ["a"],
    "statistics": {"snapshot-id": 7}, "partition_statistics": {"snapshot-id": 7}, "spec_ids": [1], "schema_ids": [1],
    "encryption_key": {"key-id": "k"}, "key_id": "k", "view_version": {"version-id": 1}, "view_version_id": 1,
    "ref": "main", "field_id": 1, "partition_id": 1,
}  # fmt: skip


@pytest.mark.parametrize("module", [updates, requirements], ids=["updates", "requirements"])
def test_builders_return_documents_with_all_required_keys(module: Any) -> None:
    for name in sorted(built(module, "")):
        builder = getattr(module, name.replace("-", "_"))
        needed = [
            parameter.name
            for parameter in inspect.signature(builder).parameters.values()
            if parameter.default is parameter.empty
        ]
        document = builder(**{name: ARGUMENTS[name] for name in needed})
        shape = typing.get_type_hints(builder)["return"]
        assert document.get("action", document.get("type" if module is requirements else "action")) == name
        assert shape.__required_keys__ <= set(document) <= set(shape.__annotations__), name


def test_set_snapshot_ref_includes_retention_limits() -> None:
    document = updates.set_snapshot_ref(
        "v1", snapshot_id=7, type="tag", max_ref_age_ms=1, max_snapshot_age_ms=2, min_snapshots_to_keep=3
    )
    assert document == {
        "action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 7,
        "max-ref-age-ms": 1, "max-snapshot-age-ms": 2, "min-snapshots-to-keep": 3,
    }  # fmt: skip


def test_a_schema_is_sent_with_the_highest_field_id() -> None:
    nested: Any = {
        "type": "struct",
        "fields": [
            {"id": 2, "name": "a", "required": True, "type": "int"},
            {"id": 1, "name": "b", "required": False, "type": {
                "type": "map", "key-id": 3, "key": "string", "value-id": 4, "value-required": False, "value": {
                    "type": "list", "element-id": 5, "element-required": True, "element": {
                        "type": "struct", "fields": [{"id": 7, "name": "c", "required": True, "type": "int"}]
                    },
                },
            }},
        ],
    }  # fmt: skip
    assert updates.add_schema(nested)["last-column-id"] == 7
    assert updates.add_schema(nested, last_column_id=9)["last-column-id"] == 9


def test_the_updates_of_a_staged_table() -> None:
    result = updates.from_staged(METADATA)
    assert [update["action"] for update in result] == [
        "assign-uuid", "upgrade-format-version", "add-schema", "set-current-schema", "add-spec", "set-default-spec",
        "add-sort-order", "set-default-sort-order", "set-location", "set-properties",
    ]  # fmt: skip
    assert result[2] == {"action": "add-schema", "schema": SCHEMA, "last-column-id": 9}
    assert [update["action"] for update in updates.from_staged({"format-version": 1, "table-uuid": "u"})] == [
        "assign-uuid",
        "upgrade-format-version",
    ]


def list_requirements(*changes: TableUpdate, **more: Any) -> list[str]:
    result = requirements.for_update(METADATA, changes, **more)
    assert result[0] == requirements.assert_table_uuid("u")
    return [requirement["type"].removeprefix("assert-") for requirement in result[1:]]


def test_requirements_follow_from_updates_in_order() -> None:
    changes: list[TableUpdate] = [
        updates.add_schema(SCHEMA),
        updates.set_current_schema(),
        updates.set_snapshot_ref("main", snapshot_id=9),
        updates.set_snapshot_ref("main", snapshot_id=10),
        updates.set_snapshot_ref("new", snapshot_id=9),
    ]
    assert requirements.for_update(METADATA, changes)[1:] == [
        requirements.assert_last_assigned_field_id(9),
        requirements.assert_current_schema_id(3),
        requirements.assert_ref_snapshot_id("main", 7),
        requirements.assert_ref_snapshot_id("new", None),
    ]
    assert list_requirements(*changes, replace=True) == ["last-assigned-field-id"]


@pytest.mark.parametrize(
    ("change", "usual", "replacing"),
    [
        (updates.add_spec({"fields": []}), ["last-assigned-partition-id"], ["last-assigned-partition-id"]),
        (updates.set_default_spec(), ["default-spec-id"], []),
        (updates.set_default_sort_order(), ["default-sort-order-id"], []),
        (updates.remove_schemas([2]), ["current-schema-id", "ref-snapshot-id"], []),
        (updates.remove_partition_specs([2]), ["default-spec-id", "ref-snapshot-id"], []),
        (updates.set_properties({"a": "b"}), [], []),
        (updates.add_snapshot(METADATA["snapshots"][0]), [], []),
    ],
)
def test_the_requirement_of_each_update(change: TableUpdate, usual: list[str], replacing: list[str]) -> None:
    assert list_requirements(change) == list_requirements(change, change) == usual
    assert list_requirements(change, replace=True) == replacing


def test_removing_a_schema_requires_unchanged_branches_but_not_tags() -> None:
    result = requirements.for_update(METADATA, [updates.remove_schemas([2])])
    assert result[2:] == [requirements.assert_ref_snapshot_id("audit", 8)]


def test_requirements_need_their_metadata_keys() -> None:
    with pytest.raises(InvalidArgumentError, match="last-column-id"):
        requirements.for_update({"format-version": 2, "table-uuid": "u"}, [updates.add_schema(SCHEMA)])
    assert requirements.for_create() == [{"type": "assert-create"}]
    view: Any = {"view-uuid": "v"}
    assert requirements.for_replace_view(view) == [{"type": "assert-view-uuid", "uuid": "v"}]


def test_metadata_helpers() -> None:
    empty: TableMetadata = {"format-version": 2, "table-uuid": "u"}
    assert get_current_schema(METADATA) == SCHEMA
    assert get_current_schema(empty) is None
    assert current_snapshot_id(METADATA) == 7
    assert current_snapshot(METADATA) == snapshot_by_id(METADATA, 7) == METADATA["snapshots"][0]
    assert snapshot_by_id(METADATA, 1) is None
    assert ref(METADATA, "v1") == {"type": "tag", "snapshot-id": 6}
    assert ref(empty, "main") is None
    # The branch main always points to the current snapshot.
    without_refs: TableMetadata = {**empty, "current-snapshot-id": 7}
    assert ref(without_refs, "main") == {"type": "branch", "snapshot-id": 7}
    assert ref(without_refs, "other") is None
    moved = requirements.for_update(without_refs, [updates.set_snapshot_ref("main", snapshot_id=8)])
    assert moved[1] == requirements.assert_ref_snapshot_id("main", 7)
    assert current_snapshot(empty) is None
    for nothing in (-1, None):
        assert current_snapshot_id({**empty, "current-snapshot-id": nothing}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(10,2)", (10, 2)),
        ("decimal( 10 , 2 )", (10, 2)),
        ("decimal (10, 2)", (10, 2)),
        *(
            (text, None)
            for text in ("decimal(10,-2)", "decimal(10)", "decimal(10,2) ", "Decimal(1,1)", "decimal(١,2)", "")
        ),
    ],
)
def test_decimals(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_decimal_type(text) == expected
    assert is_decimal_type(text) is (expected is not None)


@pytest.mark.parametrize(
    ("text", "expected"), [("fixed[16]", (16,)), ("fixed[ 16 ]", (16,)), ("fixed(16)", None), ("fixed[]", None)]
)
def test_fixed(text: str, expected: tuple[int] | None) -> None:
    assert parse_fixed_type(text) == expected
    assert is_fixed_type(text) is (expected is not None)


def test_types_equal_ignores_spaces() -> None:
    assert types_equal("decimal(10,2)", "decimal(10, 2)")
    assert types_equal("fixed[16]", "fixed[ 16 ]")
    assert types_equal("long", "long")
    assert not types_equal("int", "int ")
    assert not types_equal("decimal(10,2)", "decimal(10,3)")
    assert not types_equal("decimal(10,2)", "fixed[10]")


@untimed
@given(st.integers(0, 99), st.integers(0, 99))
def test_type_parameters_round_trip(first: int, second: int) -> None:
    assert parse_decimal_type(f"decimal({first}, {second})") == DecimalType(first, second)
    assert parse_fixed_type(f"fixed[{first}]") == FixedType(first)


def test_filters_in_both_styles() -> None:
    both = expressions.and_(expressions.eq("a", 1), expressions.not_(expressions.is_null("b")))
    assert both == {
        "type": "and",
        "left": {"type": "eq", "term": "a", "value": 1},
        "right": {"type": "not", "child": {"type": "is-null", "term": "b"}},
    }
    assert expressions.or_(True, False, expressions.is_in("a", (1, 2))) == {
        "type": "or",
        "left": {"type": "or", "left": True, "right": False},
        "right": {"type": "in", "term": "a", "values": [1, 2]},
    }
    column = {"type": "reference", "name": "a"}
    assert expressions.lt("a", 1, style="current") == {"type": "lt", "left": column, "right": 1}
    assert expressions.not_nan("a", style="current") == {"type": "not-nan", "child": column}
    assert expressions.not_in("a", [1], style="current") == {"type": "not-in", "child": column, "values": [1]}


def test_filter_builders_are_named_after_their_types() -> None:
    for name, builder in inspect.getmembers(expressions, inspect.isfunction):
        if name.startswith("_") or name in ("and_", "or_", "not_"):
            continue
        document = builder("a", *(["x"] if len(inspect.signature(builder).parameters) == 3 else []))
        assert document["type"] == {"is_in": "in"}.get(name, name.replace("_", "-"))


def loaded(*given_: StorageCredential, **config: str) -> LoadTableResult:
    return LoadTableResult(
        raw={}, metadata=METADATA, metadata_location="l", config=SecretDict(config), storage_credentials=list(given_),
        remote_signing_config=None, etag=None,
    )  # fmt: skip


def test_the_credential_with_the_longest_prefix_is_selected() -> None:
    wide = StorageCredential("s3://b/", SecretDict(key="wide", region="eu"))
    narrow = StorageCredential("s3://b/x", SecretDict(key="narrow"))
    twin = StorageCredential("s3://b/x", SecretDict(key="twin"))
    assert select_credential([wide, narrow, twin], "s3://b/x/y") is narrow
    assert select_credential([wide, narrow], "gs://b/x") is None
    assert select_credential([], "s3://b/x") is None
    result = loaded(wide, narrow, key="table", other="1")
    assert effective_config(result) == {"key": "wide", "region": "eu", "other": "1"}
    assert credentials.for_location(result, "s3://b/x/y") == {"key": "narrow", "other": "1"}
    assert credentials.for_location(result, "gs://x") == {"key": "table", "other": "1"}
    assert "narrow" not in repr(credentials.for_location(result, "s3://b/x/y"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"s3.session-token-expires-at-ms": "1700000000000"}, 1_700_000_000),
        (
            {"gcs.oauth2.token-expires-at": "1700000000000", "adls.sas-token-expires-at-ms.a": "1600000000000"},
            1_600_000_000,
        ),
        ({"s3.session-token-expires-at-ms": "soon"}, None),
        ({"s3.access-key-id": "k"}, None),
    ],
)
def test_expiry_of_credentials(config: dict[str, str], expected: int | None) -> None:
    moment = datetime.fromtimestamp(expected, UTC) if expected else None
    assert credentials.expires_at(SecretDict(config)) == moment


def test_credentials_of_a_server_without_the_endpoint(peer: HttpPeer, connect: Connect) -> None:
    path = "/v1/namespaces/a/tables/t"
    given_ = {"storage-credentials": [{"prefix": "s3://", "config": {"k": "v"}}]}
    table = {"metadata-location": "l", "metadata": {"format-version": 2, "table-uuid": "u"}, **given_}
    missing = [
        in_json({"error": {"type": "NotFound", "message": "Path not found"}}, status=404),
        in_json({"error": {"type": "BadRequestException", "message": "No route for request"}}, status=400),
        *(Response(status=status) for status in (404, 405, 501)),
    ]
    peer.respond(in_json(table), path=path)
    for response in missing:
        peer.respond(response, path=f"{path}/credentials")
        (result,) = connect().load_credentials("a.t", fallback=True)
        assert (result.prefix, result.config) == ("s3://", {"k": "v"})
        assert peer.received[-1].headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
        with pytest.raises(catalogclient.CatalogError):
            connect().load_credentials("a.t")
    peer.respond(in_json({"error": {"type": "NoSuchTableException"}}, status=404), path=f"{path}/credentials")
    with pytest.raises(catalogclient.NoSuchTableError):
        connect().load_credentials("a.t", fallback=True)
    peer.respond(in_json(given_), path=f"{path}/credentials")
    assert len(connect().load_credentials("a.t", fallback=True)) == 1


def test_load_credentials_follows_the_listed_endpoints(peer: HttpPeer, connect: Connect) -> None:
    path = "/v1/namespaces/a/tables/t"
    peer.respond(in_json({"endpoints": ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"]}), path="/v1/config")
    peer.respond(in_json({"metadata": {}}), path=path)
    assert connect(config_mode="always").load_credentials("a.t", fallback=True) == []
    assert [request.path for request in peer.received] == ["/v1/config", path]
    listed = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"]
    peer.respond(in_json({"endpoints": listed}), path="/v1/config")
    peer.respond(Response(status=405), path=f"{path}/credentials")
    with pytest.raises(catalogclient.UnsupportedOperationError):
        connect(config_mode="always").load_credentials("a.t", fallback=True)


SNAPSHOT: Any = {"snapshot-id": 7, "timestamp-ms": 1, "manifest-list": "m", "summary": {}}
OTHER: Any = {**SNAPSHOT, "snapshot-id": 99}


@pytest.mark.parametrize(
    ("changes", "is_recognised"),
    [
        ([updates.add_snapshot(SNAPSHOT)], True),
        ([updates.add_snapshot(SNAPSHOT), updates.set_snapshot_ref("main", snapshot_id=7)], True),
        ([updates.add_snapshot(OTHER)], False),
        ([updates.add_snapshot(SNAPSHOT), updates.set_snapshot_ref("audit", snapshot_id=7)], False),
        ([updates.add_snapshot(SNAPSHOT), updates.set_snapshot_ref("main", snapshot_id=8)], False),
        ([updates.add_snapshot(SNAPSHOT), updates.add_snapshot(SNAPSHOT)], False),
        ([updates.add_snapshot(SNAPSHOT), updates.set_properties({})], False),
        ([updates.set_properties({})], False),
        ([], False),
    ],
)
def test_reconcile_commit_recognises_the_snapshot(
    peer: HttpPeer, connect: Connect, changes: list[TableUpdate], is_recognised: bool
) -> None:
    peer.respond(in_json({"metadata-location": "l", "metadata": METADATA}))
    result = connect().reconcile_commit("a.t", {"updates": changes})
    if is_recognised:
        assert result is not None
        assert (result.metadata_location, result.metadata) == ("l", METADATA)
        assert result["metadata-location"] == "l"
    else:
        assert result is None

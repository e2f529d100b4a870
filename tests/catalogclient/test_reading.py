"""Whatever a server answers, it is a result or an error of ours."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogclient import CatalogError, ScanTasks
from catalogclient._messages import Call, Headers, Reply
from catalogclient._operations import commits, configuration, functions, namespaces, scans, storage, tables, views
from catalogclient._scan import resolved

TABLE: Any = {"name": "t", "schema": {}, "metadata-location": "l"}
LOAD: dict[str, Any] = {
    "if_none_match": None, "snapshots": None, "referenced_by": None, "access_delegation": None
}  # fmt: skip
PAGE: dict[str, Any] = {"page_size": None, "page_token": None}
CALLS: list[Call[Any]] = [
    configuration.load(None),
    namespaces.list_(parent=None, **PAGE),
    namespaces.create("a", None),
    namespaces.load("a"),
    namespaces.update_properties("a", None, updates={}, removals=[]),
    tables.list_("a", **PAGE),
    tables.create("a", TABLE, access_delegation=None),
    tables.register("a", TABLE),
    tables.load("a.t", **LOAD),
    tables.load_raw("a.t", **LOAD),
    tables.unregister("a.t"),
    commits.one("a.t", None, requirements=[], updates=[]),
    views.list_("a", **PAGE),
    views.load("a.v", referenced_by=None),
    functions.list_("a", **PAGE),
    functions.load("a.f"),
    scans.plan("a.t", None),
    scans.fetch_plan("a.t", "p"),
    scans.fetch_tasks("a.t", "k"),
    storage.credentials("a.t", plan_id=None, referenced_by=None),
    storage.sign("a.t", {"region": "r", "uri": "u", "method": "GET", "headers": {}}, signing_config=None),
]
KEYS = [
    *("defaults", "overrides", "endpoints", "idempotency-key-lifetime", "namespaces", "identifiers", "next-page-token"),
    *("namespace", "name", "properties", "updated", "removed", "missing", "metadata", "metadata-location", "config"),
    *("storage-credentials", "prefix", "remote-signing-config", "status", "plan-id", "plan-tasks", "error", "message"),
    *("file-scan-tasks", "delete-files", "delete-file-references", "uri", "headers", "type", "code", "stack"),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "completed", "submitted", "failed"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8) | VALUES


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.operation.name)
@given(document=DOCUMENTS)
@settings(max_examples=30)
def test_any_document_is_a_result_or_an_error_of_ours(call: Call[Any], document: Any) -> None:
    body = io.BytesIO(json.dumps(document).encode())
    with contextlib.suppress(CatalogError):
        result = call.read(Reply(200, Headers({"Content-Type": "application/json"}), body))
        assert repr(result)
        if isinstance(result, ScanTasks):
            assert len(list(resolved(result))) == len(result.file_scan_tasks)


@settings(max_examples=30)
@given(content=st.binary(max_size=40), kind=st.sampled_from(["application/json", "text/html", ""]))
def test_any_bytes_are_a_result_or_an_error_of_ours(content: bytes, kind: str) -> None:
    for call in CALLS:
        if call.operation.name in ("create_namespace", "load_table"):
            continue
        with pytest.raises(CatalogError):
            call.read(Reply(200, Headers({"Content-Type": kind}), io.BytesIO(content)))

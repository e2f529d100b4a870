"""Every response is parsed to a result or raises a CatalogError."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from catalogclient import CatalogError, ScanTasks
from catalogclient._messages import HttpResponse
from catalogclient._operations import parsing
from catalogclient._scan import resolve_tasks
from tests.catalogclient.conftest import untimed

PARSERS: list[Callable[[HttpResponse], Any]] = [
    *(parsing.config, parsing.namespace_page, parsing.namespace_properties, parsing.table_page),
    *(parsing.table, parsing.unregistered_table, parsing.commit, parsing.view_page, parsing.view),
    *(parsing.function_page, parsing.function, parsing.plan, parsing.new_plan, parsing.scan_tasks),
    parsing.signature,
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


@given(document=DOCUMENTS)
@settings(untimed, max_examples=100)
def test_any_document_is_a_result_or_a_catalog_error(document: Any) -> None:
    body = json.dumps(document).encode()
    for parse in PARSERS:
        with contextlib.suppress(CatalogError):
            headers = CaseInsensitiveDict({"Content-Type": "application/json"})
            result = parse(HttpResponse(200, headers, io.BytesIO(body)))
            assert repr(result)
            if isinstance(result, ScanTasks):
                assert len(list(resolve_tasks(result))) == len(result.file_scan_tasks)


@settings(untimed, max_examples=30)
@given(content=st.binary(max_size=40), kind=st.sampled_from(["application/json", "text/html", ""]))
def test_any_bytes_are_a_result_or_a_catalog_error(content: bytes, kind: str) -> None:
    for parse in PARSERS:
        with contextlib.suppress(CatalogError):
            assert repr(parse(HttpResponse(200, CaseInsensitiveDict({"Content-Type": kind}), io.BytesIO(content))))

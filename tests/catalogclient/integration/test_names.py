"""Names with special characters round-trip through a real server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogclient import RestCatalog
from tests.catalogclient.conftest import untimed
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import CatalogServer

SEPARATOR = "\x1f"
"""The client refuses it in a level, because servers take it as the separator."""
NUL = "\x00"
"""Apache's server refuses it everywhere."""

AWKWARD = "a Z/.%+~&=?#;:@!$'()*,[]{}|\\\"<>^`éß日本🎈\u200b\u0301\x01\x7f"
TEXT = st.text(st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=["Cs"])), min_size=1, max_size=12)
NAMES = TEXT.filter(lambda text: text not in {".", ".."} and NUL not in text)
TABLE_NAMES = st.one_of(NAMES, NAMES.map(lambda name: f"{name}{SEPARATOR}"), st.just("100%"), st.just("%2F"))
LEVELS = NAMES.filter(lambda text: SEPARATOR not in text)


@pytest.fixture(scope="module")
def memory(apache_servers: dict[str, CatalogServer]) -> Iterator[RestCatalog]:
    with apache_servers["apache-memory"].connect() as catalog:
        yield catalog


@given(levels=st.lists(LEVELS, min_size=1, max_size=3), name=TABLE_NAMES)
@settings(untimed, max_examples=30)
def test_any_name_round_trips(memory: RestCatalog, levels: list[str], name: str) -> None:
    namespace = (secrets.token_hex(4), *levels)
    for depth in range(1, len(namespace) + 1):
        memory.create_namespace(namespace[:depth])
    memory.update_namespace_properties(namespace, updates={"name": name})
    assert memory.load_namespace_metadata(namespace).properties == {"name": name}
    assert memory.namespace_exists(namespace)

    request: Any = {**documents.table(name), "location": f"memory:/{secrets.token_hex(8)}"}
    uuid = memory.create_table(namespace, request)["table-uuid"]
    [result] = memory.list_tables(namespace)
    assert (result.namespace, result.name) == (namespace, name)
    assert memory.load_table(result)["table-uuid"] == uuid
    memory.rename_table(result, (*namespace, f"{name}2"))
    assert not memory.table_exists(result)
    memory.drop_table((*namespace, f"{name}2"))
    memory.drop_namespace(namespace)
    assert not memory.namespace_exists(namespace)


@pytest.mark.parametrize("level", ["two words", "a/b", "a.b", "100%", "%2F", "1+1", "Straße", "日本"])
def test_a_level_round_trips_through_the_list(memory: RestCatalog, level: str) -> None:
    if not memory.create_namespace_if_not_exists([level]):
        pytest.fail("made twice")
    assert (level,) in [namespace.namespace for namespace in memory.iter_namespaces()]


@pytest.mark.parametrize("inner", ["a_b", "a-b", "2026"])
def test_a_plain_name_round_trips_on_every_server(catalog: RestCatalog, namespace: str, inner: str) -> None:
    levels = (namespace, inner, inner)
    catalog.create_namespace(levels[:2])
    catalog.create_namespace(levels)
    catalog.create_table(levels, documents.table("t"))
    assert [namespace.namespace for namespace in catalog.list_namespaces(parent=levels[:2])] == [levels]
    assert [table.namespace for table in catalog.list_tables(levels)] == [levels]

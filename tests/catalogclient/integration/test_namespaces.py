"""Namespaces on every server."""

from __future__ import annotations

import pytest

from catalogclient import (
    AlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    RestCatalog,
    UnprocessableEntityError,
    generate_idempotency_key,
)
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer


def test_creates_loads_and_drops_a_namespace(catalog: RestCatalog, namespace: str) -> None:
    inner = (namespace, "tax")
    assert not catalog.namespace_exists(inner)
    created = catalog.create_namespace(inner, {"owner": "ops"})
    assert created.namespace.namespace == inner
    assert catalog.namespace_exists(inner)
    assert catalog.load_namespace_metadata(inner).properties["owner"] == "ops"
    assert [child.namespace for child in catalog.list_namespaces(parent=namespace)] == [inner]
    catalog.drop_namespace(inner)
    assert not catalog.namespace_exists(inner)
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_metadata(inner)


def test_creating_an_existing_namespace_fails(catalog: RestCatalog, namespace: str) -> None:
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace(namespace)
    assert catalog.create_namespace_if_not_exists(namespace) is None


def test_a_repeated_key_returns_the_first_outcome(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    key = generate_idempotency_key()
    catalog.create_namespace((namespace, "once"), idempotency_key=key)
    if server.can(Ability.REPLAY):
        again = catalog.create_namespace((namespace, "once"), idempotency_key=key)
        assert again.namespace.namespace == (namespace, "once")
    else:
        with pytest.raises(AlreadyExistsError):
            catalog.create_namespace((namespace, "once"), idempotency_key=key)


def test_sets_and_removes_properties_and_reports_missing_ones(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    catalog.update_namespace_properties(namespace, updates={"a": "1", "b": "2"})
    changed = catalog.update_namespace_properties(namespace, updates={"a": "3"}, removals=["b", "nothing"])
    assert (changed.updated, changed.removed, changed.missing) == (["a"], ["b"], ["nothing"])
    properties = catalog.load_namespace_metadata(namespace).properties
    assert properties["a"] == "3"
    assert "b" not in properties
    if server.can(Ability.CHECKS_PROPERTIES):
        with pytest.raises(UnprocessableEntityError):
            catalog.update_namespace_properties(namespace, {"updates": {"a": "4"}, "removals": ["a"]})


def test_a_namespace_with_a_table_cannot_be_dropped(catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table(namespace, documents.table("orders"))
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    assert catalog.namespace_exists(namespace)


def test_pages_of_size_one_contain_every_namespace_once(
    server: CatalogServer, catalog: RestCatalog, namespace: str
) -> None:
    server.need(Ability.PAGES)
    expected = [(namespace, f"n{number}") for number in range(4)]
    for child in expected:
        catalog.create_namespace(child)
    first = catalog.list_namespaces(parent=namespace, page_size=1, page_token="")
    assert len(first) == 1
    assert first.next_page_token
    result = [child.namespace for child in catalog.iter_namespaces(parent=namespace, page_size=1)]
    assert sorted(result) == expected


def test_recursive_lists_contain_every_namespace_once(catalog: RestCatalog, namespace: str) -> None:
    expected = {(namespace, "a"), (namespace, "a", "b"), (namespace, "c")}
    for inner in sorted(expected):
        catalog.create_namespace(inner)
    result = [child.namespace for child in catalog.iter_namespaces(parent=namespace, recursive=True)]
    assert sorted(result) == sorted(expected)

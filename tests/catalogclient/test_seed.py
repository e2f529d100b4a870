"""The statements of the 1.0 interface, one test each."""

from __future__ import annotations

import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from catalogclient import (
    CatalogError,
    InvalidArgumentError,
    NamespaceIdentifier,
    RestCatalog,
    RestCatalogOptions,
    TableIdentifier,
    requirements,
    updates,
)
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

LOADED: Any = {
    "metadata": {"format-version": 2, "table-uuid": "u"},
    "metadata-location": "s3://b/0.json",
    "config": {"k": "v"},
    "storage-credentials": [{"prefix": "s3://b", "config": {"s3.access-key-id": "AK"}}],
}
CREATE: Any = {"name": "t", "schema": {"type": "struct", "fields": []}}
REGISTER: Any = {"name": "t", "metadata-location": "s3://b/0.json"}


def test_the_main_class_is_constructed_with_an_options_object(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    options = RestCatalogOptions.from_mapping({"baseUrl": peer.url, "warehouse": "w", "accessDelegation": ["x"]})
    with RestCatalog(options) as catalog:
        assert len(catalog.list_namespaces()) == 0


def test_on_first_use_the_config_is_requested_with_the_warehouse_and_the_prefix_of_the_overrides_used(
    peer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p"}}), path="/v1/config")
    peer.respond(in_json({}))
    catalog = connect(warehouse="w")
    assert peer.received == []
    catalog.list_namespaces()
    catalog.list_namespaces()
    assert [request.target for request in peer.received] == ["/v1/config?warehouse=w", *["/v1/p/namespaces"] * 2]


def test_a_server_without_config_gets_the_warehouse_as_a_literal_path_segment(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=404), path="/v1/config")
    peer.respond(in_json({}))
    connect(warehouse="w h").list_namespaces()
    assert peer.received[-1].target == "/v1/w%20h/namespaces"


def test_catalog_name_is_an_alias_of_warehouse_and_warehouse_wins(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    connect(catalog_name="old").load_config()
    connect(catalog_name="old", warehouse="new").load_config()
    assert [request.query for request in peer.received] == [{"warehouse": "old"}, {"warehouse": "new"}]


def test_auth_of_type_bearer_carries_a_token(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    connect(auth={"type": "bearer", "token": "t"}).list_namespaces()
    assert peer.received[0].headers["Authorization"] == "Bearer t"


def test_access_delegation_is_an_array_of_strings(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(LOADED))
    connect(access_delegation=["vended-credentials", "remote-signing"]).load_table("a.t")
    assert peer.received[0].headers["X-Iceberg-Access-Delegation"] == "vended-credentials,remote-signing"


def test_a_namespace_page_has_namespaces_and_an_optional_next_page_token(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"namespaces": [["a", "b"]], "next-page-token": "n"}), in_json({"namespaces": []}))
    catalog = connect()
    page = catalog.list_namespaces(page_size=1, page_token="")
    assert (page.namespaces, page.next_page_token) == ([NamespaceIdentifier(("a", "b"))], "n")
    assert catalog.list_namespaces().next_page_token is None


def test_a_table_page_has_identifiers_and_an_optional_next_page_token(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"identifiers": [{"namespace": ["a"], "name": "t"}], "next-page-token": "n"}))
    page = connect().list_tables({"namespace": ["a"]})
    assert (page.identifiers, page.next_page_token) == ([TableIdentifier(("a",), "t")], "n")


def test_the_parent_filter_is_passed_as_parent(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    catalog = connect()
    catalog.list_namespaces(parent={"namespace": ["a"]}, page_size=2, page_token="x")
    assert peer.received[0].query == {"parent": "a", "pageToken": "x", "pageSize": "2"}
    with pytest.raises(TypeError):
        catalog.list_namespaces(namespace=["a"])  # type: ignore[call-arg]


def test_load_table_returns_metadata_only_and_none_for_304(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(LOADED), Response(status=304))
    catalog = connect()
    assert catalog.load_table({"namespace": ["a"], "name": "t"}, snapshots="refs") == LOADED["metadata"]
    assert catalog.load_table("a.t", if_none_match='"e"', snapshots="all") is None
    assert peer.received[0].query == {"snapshots": "refs"}
    assert peer.received[1].headers["If-None-Match"] == '"e"'


def test_credentials_and_config_are_in_the_result_methods_only(peer: HttpPeer, connect: Connect) -> None:
    headers = {"Content-Type": "application/json", "ETag": '"e"'}
    peer.respond(Response(headers=headers, body=in_json(LOADED).body))
    catalog = connect()
    for bare in (catalog.load_table("a.t"), catalog.create_table("a", CREATE), catalog.register_table("a", REGISTER)):
        assert bare == LOADED["metadata"]
    for result in (
        catalog.load_table_result("a.t"),
        catalog.create_table_result("a", CREATE),
        catalog.register_table_result("a", REGISTER),
    ):
        assert (result.config, result.etag) == ({"k": "v"}, '"e"')
        assert result["storage-credentials"][0]["prefix"] == "s3://b"


def test_update_table_takes_requirements_and_updates_and_commit_table_is_its_alias(
    peer: HttpPeer, connect: Connect
) -> None:
    peer.respond(in_json(LOADED))
    catalog = connect()
    body: Any = {
        "requirements": [requirements.assert_table_uuid("u"), requirements.assert_ref_snapshot_id("main", None)],
        "updates": [updates.set_properties({"a": "b"}), updates.remove_properties(["c"])],
    }
    catalog.update_table("a.t", body)
    catalog.commit_table("a.t", body)
    assert [request.json() for request in peer.received] == [body, body]
    with pytest.raises(InvalidArgumentError):
        catalog.update_table("a.t", {"properties": {"a": "b"}})  # type: ignore[arg-type]


def test_an_empty_requirements_array_disables_optimistic_concurrency(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(LOADED))
    connect().update_table("a.t", {"requirements": [], "updates": []})
    assert peer.received[0].json()["requirements"] == []


def test_every_post_and_delete_mutation_carries_an_idempotency_key(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({**LOADED, "updated": []}))
    catalog = connect()
    catalog.create_namespace("a")
    catalog.update_namespace_properties("a", {"updates": {"x": "y"}})
    catalog.create_table("a", CREATE)
    catalog.register_table("a", REGISTER)
    catalog.update_table("a.t", {"requirements": [], "updates": []})
    catalog.rename_table(
        {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "u"}}
    )
    catalog.drop_table("a.t")
    catalog.drop_namespace("a")
    keys = [request.headers["Idempotency-Key"] for request in peer.received]
    assert None not in keys
    assert len(set(keys)) == 8


def test_load_config_returns_the_server_configuration(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"defaults": {"a": "b"}, "overrides": {"c": "d"}}))
    config = connect().load_config()
    assert (config.defaults, config.overrides) == ({"a": "b"}, {"c": "d"})
    assert peer.received[0].target == "/v1/config"


def test_every_failure_is_a_catalog_error_and_a_network_failure_has_status_0(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=418))
    with pytest.raises(CatalogError) as caught:
        connect().list_namespaces()
    assert caught.value.status == 418
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}", "http://catalog.invalid", f"https://127.0.0.1:{peer.port}"):
        with RestCatalog(url, retry=None) as catalog, pytest.raises(CatalogError) as caught:
            catalog.list_namespaces()
        assert caught.value.status == 0


def test_the_oldest_python_is_3_11() -> None:
    document = tomllib.loads((Path(__file__).parents[2] / "catalogclient" / "pyproject.toml").read_text())
    assert document["project"]["requires-python"] == ">=3.11"

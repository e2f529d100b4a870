"""Results of operations."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from catalogclient import (
    AlreadyExistsError,
    ForbiddenError,
    InvalidResponseError,
    NamespaceIdentifier,
    NoSuchTableError,
    RawResponse,
    TableIdentifier,
    requirements,
)
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

METADATA = {"format-version": 2, "table-uuid": "u", "location": "s3://b/t", "surprise": {"kept": [1]}}
LOADED = {"metadata-location": "s3://b/0.json", "metadata": METADATA}


def tagged(document: Any, tag: str, **more: str) -> Response:
    return Response(
        headers={"Content-Type": "application/json", "ETag": tag, **more}, body=json.dumps(document).encode()
    )


@pytest.mark.parametrize(
    ("body", "count", "token"),
    [
        ({"namespaces": [["a"], ["a", "b"]], "next-page-token": "t"}, 2, "t"),
        ({"namespaces": [["a"]], "next-page-token": None}, 1, None),
        ({"namespaces": [], "next-page-token": ""}, 0, None),
        ({"namespaces": None}, 0, None),
        ({}, 0, None),
    ],
)
def test_pages(peer: HttpPeer, connect: Connect, body: Any, count: int, token: str | None) -> None:
    peer.respond(in_json(body))
    page = connect().list_namespaces()
    assert len(page) == count
    assert page.next_page_token == token
    assert list(page) == page.namespaces
    assert all(isinstance(namespace, NamespaceIdentifier) for namespace in page)


def test_pages_of_tables_and_functions(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"identifiers": [{"namespace": ["a"], "name": "t"}]}))
    catalog = connect()
    assert catalog.list_tables("a").identifiers == [TableIdentifier(("a",), "t")]
    assert list(catalog.list_views("a")) == [TableIdentifier(("a",), "t")]
    peer.respond(in_json({"identifiers": [["a", "f"]]}))
    assert list(catalog.list_functions("a")) == [("a", "f")]


@pytest.mark.parametrize(
    "body",
    [
        *([], "x", {"namespaces": {}}, {"namespaces": ["a"]}, {"namespaces": [[1]]}),
        {"namespaces": [], "next-page-token": 7},
    ],
)
def test_invalid_pages_are_errors(peer: HttpPeer, connect: Connect, body: Any) -> None:
    peer.respond(in_json(body))
    with pytest.raises(InvalidResponseError) as caught:
        connect().list_namespaces()
    assert (caught.value.status, caught.value.operation) == (200, "list_namespaces")


@pytest.mark.parametrize("tag", ['W/"x"', '"x"', "1a2b"])
def test_an_etag_is_sent_back_unchanged(peer: HttpPeer, connect: Connect, tag: str) -> None:
    peer.respond(tagged(LOADED, tag), Response(status=304))
    catalog = connect()
    result = catalog.load_table_result("a.t")
    assert result.etag == result["etag"] == tag
    assert catalog.load_table("a.t", if_none_match=tag) is None
    assert catalog.load_table_result("a.t", if_none_match=tag) is None
    assert peer.received[1].headers["If-None-Match"] == tag


def test_the_compression_suffix_of_an_etag_is_removed(peer: HttpPeer, connect: Connect) -> None:
    body = gzip.compress(json.dumps(LOADED).encode())
    for sent, expected in {"x--gzip": "x", '"x--gzip"': '"x"', 'W/"x--gzip"': 'W/"x"', '"x"': '"x"'}.items():
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "ETag": sent}
        peer.respond(Response(headers=headers, body=body))
        assert connect().load_table_result("a.t").etag == expected


def test_a_missing_or_empty_etag(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(LOADED))
    result = connect().load_table_result("a.t", if_none_match="")
    assert result is not None
    assert result.etag is None
    assert result["etag"] is None
    assert set(result) == {"metadata-location", "metadata", "etag"}
    assert len(result) == 3
    assert peer.received[0].headers["If-None-Match"] is None


def test_304_without_if_none_match_is_an_error(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=304))
    with pytest.raises(InvalidResponseError) as caught:
        connect().load_table("a.t")
    assert caught.value.status == 304


def test_credentials_are_in_the_result_only_and_hidden_in_repr(peer: HttpPeer, connect: Connect) -> None:
    secret = {"s3.secret-access-key": "s3cr3t"}
    peer.respond(
        in_json({**LOADED, "config": secret, "storage-credentials": [{"prefix": "s3://b/", "config": secret}]})
    )
    catalog = connect()
    assert catalog.load_table("a.t") == METADATA
    result = catalog.load_table_result("a.t")
    assert result.storage_credentials[0].config["s3.secret-access-key"] == "s3cr3t"
    assert result["storage-credentials"][0]["config"] == result["config"] == secret
    shown = [result, str(result), result.raw, result.storage_credentials, result["storage-credentials"], dict(result)]
    assert "s3cr3t" not in repr(shown)
    assert "s3.secret-access-key" in repr(result)


def test_missing_parts_of_a_load_result_are_empty(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"metadata": METADATA, "config": None, "storage-credentials": None}))
    result = connect().load_table_result("a.t")
    assert (result.metadata_location, result.config, result.storage_credentials) == (None, {}, [])
    assert (result["config"], result["storage-credentials"]) == ({}, [])


def test_large_numbers_and_unknown_keys_are_kept(peer: HttpPeer, connect: Connect) -> None:
    largest = 9_223_372_036_854_775_807
    peer.respond(in_json({**LOADED, "metadata": {**METADATA, "current-snapshot-id": largest}}))
    catalog = connect()
    metadata = catalog.load_table("a.t")
    assert metadata["current-snapshot-id"] == largest
    assert metadata["surprise"] == {"kept": [1]}  # type: ignore[misc]
    catalog.update_table("a.t", requirements=[requirements.assert_ref_snapshot_id("main", largest)])
    assert peer.received[-1].json()["requirements"][0]["snapshot-id"] == largest
    catalog.update_table("a.t", requirements=[requirements.assert_ref_snapshot_id("main", None)])
    assert b'"snapshot-id":null' in peer.received[-1].body


@pytest.mark.parametrize(
    ("body", "properties", "supported"),
    [
        ({"namespace": ["a"], "properties": {"k": "v"}}, {"k": "v"}, True),
        ({"namespace": ["a"], "properties": None}, {}, False),
        ({"namespace": ["a"]}, {}, True),
        ({}, {}, True),
    ],
)
def test_properties_of_a_namespace(
    peer: HttpPeer, connect: Connect, body: Any, properties: dict[str, str], supported: bool
) -> None:
    peer.respond(in_json(body))
    result = connect().load_namespace_metadata("a")
    assert (result.namespace, result.properties) == (NamespaceIdentifier(("a",)), properties)
    assert result.properties_supported is supported


@pytest.mark.parametrize("response", [Response(status=204), Response(status=201), Response(body=b"  ")])
def test_a_namespace_can_be_created_with_an_empty_response(
    peer: HttpPeer, connect: Connect, response: Response
) -> None:
    peer.respond(response)
    created = connect().create_namespace("a.b", {"k": "v"})
    assert (created.namespace.namespace, created.properties) == (("a", "b"), {"k": "v"})
    assert peer.received[0].body == b'{"namespace":["a","b"],"properties":{"k":"v"}}'


@pytest.mark.parametrize(
    "call",
    [
        lambda catalog: catalog.create_namespace("a"),
        lambda catalog: catalog.drop_table("a.t"),
        lambda catalog: catalog.commit_transaction([{"identifier": {"namespace": ["a"], "name": "t"}}]),
    ],
)
def test_the_page_of_a_proxy_is_not_taken_for_success(peer: HttpPeer, connect: Connect, call: Any) -> None:
    peer.respond(Response(headers={"Content-Type": "text/html; charset=utf-8"}, body=b"<title>Sign in</title>"))
    with pytest.raises(InvalidResponseError) as caught:
        call(connect())
    assert caught.value.maybe_applied


def test_numbers_and_booleans_in_maps_of_strings_are_strings(peer: HttpPeer, connect: Connect) -> None:
    odd = {"a": True, "b": 5, "c": "x", "d": None, "e": []}
    peer.respond(in_json({**LOADED, "config": odd, "storage-credentials": [{"prefix": "s3://", "config": odd}]}))
    catalog = connect()
    result = catalog.load_table_result("a.t")
    assert (
        result.config == result["config"] == result.storage_credentials[0].config == {"a": "true", "b": "5", "c": "x"}
    )
    peer.respond(in_json({"namespace": ["a"], "properties": odd}))
    assert catalog.load_namespace_metadata("a").properties == {"a": "true", "b": "5", "c": "x"}


@pytest.mark.parametrize("fields", [{"A": "b"}, {"A": [5]}])
def test_a_signature_has_lists_of_strings(peer: HttpPeer, connect: Connect, fields: Any) -> None:
    peer.respond(in_json({"uri": "u", "headers": fields}))
    request: Any = {"region": "eu", "uri": "u", "method": "GET", "headers": {}}
    with pytest.raises(InvalidResponseError):
        connect().sign_request("a.t", request)


def test_a_commit_response_without_a_location_is_an_error(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"metadata": METADATA}))
    with pytest.raises(InvalidResponseError) as caught:
        connect().update_table("a.t", updates=[])
    message = "Server returned 200 without required `metadata-location` field on CommitTableResponse"
    assert (caught.value.message, caught.value.status) == (message, 200)


def test_a_commit_returns_metadata_location_and_etag(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(tagged(LOADED, '"t"'))
    result = connect().commit_table("a.t", {"requirements": [], "updates": []})
    assert (result.metadata, result.metadata_location, result.etag) == (METADATA, "s3://b/0.json", '"t"')
    assert result["etag"] == '"t"'


@pytest.mark.parametrize(
    ("head", "get", "expected"),
    [(200, None, True), (204, None, True), (404, None, False), (405, 200, True), (501, 200, True), (405, 404, False)],
)
def test_existence_uses_head_with_get_as_fallback(
    peer: HttpPeer, connect: Connect, head: int, get: int | None, expected: bool
) -> None:
    peer.respond(Response(status=head), in_json(LOADED, status=get or 500))
    assert connect().table_exists("a.t") is expected
    assert [request.method for request in peer.received] == (["HEAD"] if get is None else ["HEAD", "GET"])
    peer.respond(Response(status=head), in_json({"metadata": {}, "namespace": ["a"]}, status=get or 500))
    assert connect().namespace_exists("a") is expected
    peer.respond(Response(status=head), in_json({"metadata": {}}, status=get or 500))
    assert connect().view_exists("a.v") is expected


def test_existence_uses_get_if_the_server_lists_no_head(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"endpoints": ["GET /v1/{prefix}/namespaces/{namespace}"]}), path="/v1/config")
    peer.respond(in_json({"namespace": ["a"]}))
    assert connect(config_mode="always").namespace_exists("a")
    assert [request.method for request in peer.received] == ["GET", "GET"]


def test_an_unknown_existence_is_an_error(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=403))
    with pytest.raises(ForbiddenError):
        connect().table_exists("a.t")


def test_create_if_not_exists(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=409))
    catalog = connect()
    assert catalog.create_namespace_if_not_exists("a") is None
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace("a")
    request: Any = {"name": "t", "schema": {"type": "struct", "fields": []}}
    peer.respond(Response(status=409), in_json(LOADED))
    key = "01990c5e-7b1a-7c3d-8e21-0a1b2c3d4e5f"
    assert catalog.create_table_if_not_exists("a", request, idempotency_key=key, timeout=5) == METADATA
    assert [request.method for request in peer.received[-2:]] == ["POST", "GET"]
    peer.respond(Response(status=409), Response(status=404))
    with pytest.raises(NoSuchTableError):
        catalog.create_table_if_not_exists("a", request)


@pytest.mark.parametrize(
    "body", [b"", b"{bad", b"[]", b"null", b'{"a":1} x', b"\xff{}", b"[" * 100_000, b'{"metadata":' * 60_000]
)
def test_a_response_that_is_not_an_object_is_an_error(peer: HttpPeer, connect: Connect, body: bytes) -> None:
    peer.respond(Response(headers={"Content-Type": "application/json"}, body=body))
    with pytest.raises(InvalidResponseError) as caught:
        connect().load_table("a.t")
    assert caught.value.status == 200
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", ["text/plain", "", "application/vnd.x+JSON"])
def test_json_is_detected_by_its_start_with_or_without_byte_order_mark(
    peer: HttpPeer, connect: Connect, kind: str
) -> None:
    peer.respond(Response(headers={"Content-Type": kind}, body=b"\xef\xbb\xbf " + json.dumps(LOADED).encode()))
    assert connect().load_table("a.t") == METADATA


def test_raw_returns_the_response_unparsed(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(tagged(LOADED, '"x"'), Response(status=304))
    catalog = connect()
    result = catalog.load_table_result("a.t", raw=True)
    assert isinstance(result, RawResponse)
    assert result.json() == LOADED
    assert result.headers["etag"] == '"x"'
    assert catalog.load_table_result("a.t", raw=True, if_none_match='"x"') is None


def test_other_results(peer: HttpPeer, connect: Connect) -> None:
    catalog = connect()
    peer.respond(in_json({"metadata": {"view-uuid": "u"}, "metadata-location": "l", "config": {"token": "s3cr3t"}}))
    view = catalog.load_view_result("a.v")
    assert (view.metadata["view-uuid"], view.metadata_location, view.config["token"]) == ("u", "l", "s3cr3t")
    assert "s3cr3t" not in repr(view)
    assert catalog.load_function_result("a.f").metadata_location == "l"
    peer.respond(in_json(LOADED))
    assert catalog.unregister_table("a.t").metadata_location == "s3://b/0.json"
    assert peer.received[-1].headers["Content-Length"] == "0"
    assert peer.received[-1].headers["Content-Type"] is None
    peer.respond(in_json({"updated": ["a"], "removed": None}))
    changed = catalog.update_namespace_properties("a", {"updates": {"a": "1"}})
    assert (changed.updated, changed.removed, changed.missing) == (["a"], [], [])

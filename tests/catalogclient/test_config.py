"""The server's configuration: requests, caching and derived settings."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

from catalogclient import (
    CatalogError,
    Endpoint,
    ForbiddenError,
    InvalidResponseError,
    NoSuchWarehouseError,
    ServerError,
    UnauthorizedError,
    UnsupportedEndpointError,
)
from catalogclient._operations import parsing
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

CONFIG = "/v1/config"


def error(status: int, kind: str | None = None) -> Response:
    return in_json({"error": {"message": "m", "type": kind, "code": status}}, status=status)


def targets(peer: HttpPeer) -> list[str]:
    return [request.target for request in peer.received]


def test_the_configuration_is_requested_once_and_its_prefix_is_used(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p"}, "defaults": {}}), path=CONFIG)
    peer.respond(in_json({}))
    catalog = connect(warehouse="wh")
    catalog.list_namespaces()
    catalog.list_namespaces()
    assert targets(peer) == ["/v1/config?warehouse=wh", "/v1/p/namespaces", "/v1/p/namespaces"]
    assert catalog.prefix() == "p"


@pytest.mark.parametrize(
    ("body", "options", "prefix"),
    [
        ({"overrides": {}, "defaults": {"prefix": "d"}}, {}, "d"),
        ({"overrides": {"prefix": "o"}, "defaults": {"prefix": "d"}}, {}, "o"),
        ({"overrides": {}, "defaults": {}}, {}, ""),
        ({"overrides": {}, "defaults": {}}, {"warehouse": "s3://b/w"}, ""),
        ({"overrides": {}, "defaults": {}}, {"prefix": ""}, ""),
        ({"overrides": {"prefix": "o"}, "defaults": {}}, {"prefix": "mine"}, "mine"),
        ({"overrides": None, "defaults": None}, {}, ""),
        ({"defaults": {"prefix": "main"}}, {"config_mode": "auto", "warehouse": None}, "main"),
    ],
)
def test_sources_of_the_prefix(
    peer: HttpPeer, connect: Connect, body: Any, options: dict[str, Any], prefix: str
) -> None:
    peer.respond(in_json(body))
    assert connect(**{"warehouse": "wh", **options}).prefix() == prefix


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({"warehouse": "a", "catalog_name": "b"}, "?warehouse=a"),
        ({"catalog_name": "b"}, "?warehouse=b"),
        ({"config_mode": "always"}, ""),
        ({"config_mode": "auto"}, ""),
        ({"warehouse": "a b&c"}, "?warehouse=a%20b%26c"),
    ],
)
def test_parameters_of_the_configuration_request(
    peer: HttpPeer, connect: Connect, options: dict[str, Any], query: str
) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p"}}))
    connect(**options).prefix()
    assert targets(peer) == [f"/v1/config{query}"]


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"config_mode": "never"}, "/v1/namespaces"),
        ({"config_mode": "never", "warehouse": "a b/c"}, "/v1/a%20b%2Fc/namespaces"),
        ({"config_mode": "never", "warehouse": "w", "prefix": "p/q"}, "/v1/p/q/namespaces"),
        ({"config_mode": "never", "prefix": "p"}, "/v1/p/namespaces"),
    ],
)
def test_config_mode_never_sends_no_configuration_request(
    peer: HttpPeer, connect: Connect, options: dict[str, Any], target: str
) -> None:
    peer.respond(in_json({}))
    connect(**options).list_namespaces()
    assert targets(peer) == [target]


@pytest.mark.parametrize(
    "response",
    [
        in_json({"message": "Route not found"}, status=404),
        error(404, "NotFound"),
        error(404, "NotFoundException"),
        error(501, "UnsupportedOperationException"),
        Response(status=405),
        Response(status=410),
        Response(status=501),
    ],
)
def test_without_a_configuration_endpoint_the_warehouse_is_the_prefix(
    peer: HttpPeer, connect: Connect, response: Response
) -> None:
    peer.respond(response, path=CONFIG)
    peer.respond(in_json({}))
    catalog = connect(warehouse="a b/c")
    catalog.list_namespaces()
    catalog.list_namespaces()
    assert targets(peer) == [
        "/v1/config?warehouse=a%20b%2Fc", "/v1/a%20b%2Fc/namespaces", "/v1/a%20b%2Fc/namespaces"
    ]  # fmt: skip


def test_a_missing_warehouse_is_an_error_and_not_cached(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(error(404, "NoSuchWarehouseException"), in_json({"overrides": {"prefix": "p"}}), path=CONFIG)
    peer.respond(in_json({}))
    catalog = connect(warehouse="wh")
    with pytest.raises(NoSuchWarehouseError):
        catalog.list_namespaces()
    catalog.list_namespaces()
    assert targets(peer)[-1] == "/v1/p/namespaces"


@pytest.mark.parametrize("response", [error(400), error(404, "NoSuchWarehouseException")])
def test_a_server_that_requires_a_warehouse_works_without_configuration(
    peer: HttpPeer, connect: Connect, response: Response
) -> None:
    peer.respond(response, path=CONFIG)
    peer.respond(in_json({}))
    connect(config_mode="auto", prefix="p").list_namespaces()
    assert targets(peer) == [CONFIG, "/v1/p/namespaces"]


FAILURES = [
    (error(500), ServerError),
    (error(401), UnauthorizedError),
    (error(403), ForbiddenError),
    (Response(headers={"Content-Type": "text/html"}, body=b"<html>"), InvalidResponseError),
]


@pytest.mark.parametrize(("response", "kind"), FAILURES)
def test_other_failures_are_raised_and_not_cached(
    peer: HttpPeer, connect: Connect, response: Response, kind: type[CatalogError]
) -> None:
    peer.respond(response, in_json({"overrides": {"prefix": "p"}}), path=CONFIG)
    catalog = connect(warehouse="wh", retry=None)
    with pytest.raises(kind):
        catalog.prefix()
    assert catalog.prefix() == "p"


@pytest.mark.parametrize(("response", "kind"), FAILURES)
def test_config_fallback_any_ignores_every_failure(
    peer: HttpPeer, connect: Connect, response: Response, kind: type[CatalogError]
) -> None:
    peer.respond(response, path=CONFIG)
    assert connect(warehouse="wh", retry=None, config_fallback="any").prefix() == "wh"


def test_config_fallback_never_raises_every_failure(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=404))
    with pytest.raises(NoSuchWarehouseError):
        connect(warehouse="wh", config_fallback="never").prefix()


def test_a_network_failure_is_raised(connect: Connect, peer: HttpPeer) -> None:
    peer.respond(Response(raw=b"", close=True))
    with pytest.raises(CatalogError) as caught:
        connect(warehouse="wh", retry=None).prefix()
    assert caught.value.status == 0


def test_concurrent_first_calls_share_one_configuration_request(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(
        Response(delay=0.3, headers={"Content-Type": "application/json"}, body=b'{"overrides":{"prefix":"p"}}'),
        path=CONFIG,
    )
    peer.respond(in_json({}))
    catalog = connect(warehouse="wh")
    threads = [threading.Thread(target=catalog.list_namespaces) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(targets(peer)) == ["/v1/config?warehouse=wh"] + ["/v1/p/namespaces"] * 64


def test_a_uri_of_the_same_origin_is_followed(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"overrides": {"uri": f"{peer.url}/other/", "prefix": "p"}}), path=CONFIG)
    peer.respond(in_json({}))
    connect(warehouse="wh").list_namespaces()
    assert targets(peer)[1] == "/other/v1/p/namespaces"


@pytest.mark.parametrize("uri", ["http://evil.example", "http://u:p@127.0.0.1", "nonsense"])
def test_a_uri_of_another_origin_is_ignored_with_a_warning(
    peer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture, uri: str
) -> None:
    peer.respond(in_json({"overrides": {"uri": uri, "prefix": "p"}}), path=CONFIG)
    peer.respond(in_json({}))
    with caplog.at_level(logging.WARNING):
        connect(warehouse="wh").list_namespaces()
    assert targets(peer)[1] == "/v1/p/namespaces"
    (record,) = [record for record in caplog.records if record.name == "catalogclient.config"]
    assert "evil" not in record.getMessage()


def test_a_uri_of_another_origin_is_used_with_config_uri_always(peer: HttpPeer, connect: Connect) -> None:
    with HttpPeer() as other:
        peer.respond(in_json({"overrides": {"uri": other.url, "prefix": "p"}}), path=CONFIG)
        other.respond(in_json({}))
        connect(warehouse="wh", config_uri="always").list_namespaces()
        assert targets(other) == ["/v1/p/namespaces"]
    peer.respond(in_json({}))
    connect(warehouse="wh", config_uri="never", prefix="q").list_namespaces()
    assert targets(peer)[-1] == "/v1/q/namespaces"


def test_a_failed_refresh_keeps_the_configuration(peer: HttpPeer, connect: Connect) -> None:
    good = in_json({"overrides": {"prefix": "p"}})
    peer.respond(good, error(403), in_json({"overrides": {"prefix": "q"}}), path=CONFIG)
    catalog = connect(warehouse="wh")
    known = catalog.load_config()
    assert catalog.load_config() is known
    with pytest.raises(ForbiddenError):
        catalog.load_config(refresh=True)
    assert catalog.load_config() is known
    assert catalog.prefix() == "p"
    catalog.load_config(refresh=True)
    assert catalog.prefix() == "q"


def test_a_fallback_is_cached_until_a_refresh(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=404), in_json({"overrides": {"prefix": "p"}}), path=CONFIG)
    catalog = connect(warehouse="wh")
    assert [catalog.prefix(), catalog.prefix()] == ["wh", "wh"]
    catalog.load_config(refresh=True)
    assert catalog.prefix() == "p"


def test_load_config_does_not_change_the_route_in_mode_never(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p", "uri": f"{peer.url}/x"}, "idempotency-key-lifetime": "PT1H"}))
    catalog = connect()
    assert catalog.load_config().idempotency_key_lifetime == timedelta(hours=1)
    assert catalog.prefix() == ""


def test_the_default_endpoints_apply_without_a_list(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"endpoints": []}))
    catalog = connect()
    assert not catalog.supports("HEAD /v1/{prefix}/namespaces/{namespace}")
    assert catalog.supports("POST /v1/{prefix}/transactions/commit")
    assert not catalog.supports(Endpoint.LIST_VIEWS)


def test_views_are_supported_with_view_endpoints_supported(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"defaults": {"view-endpoints-supported": "true"}}))
    catalog = connect(config_mode="always")
    assert catalog.supports(Endpoint.RENAME_VIEW)
    assert not catalog.supports(Endpoint.REGISTER_VIEW)


def test_supports_follows_the_listed_endpoints(peer: HttpPeer, connect: Connect) -> None:
    listed = ["GET  /v1/{prefix}/namespaces ", "nonsense", "POST v1/oauth/tokens", "GET /v1/{prefix}/vendor"]
    peer.respond(in_json({"endpoints": listed}))
    catalog = connect()
    assert catalog.supports(Endpoint.LIST_NAMESPACES)
    assert catalog.supports("GET /v1/{prefix}/vendor")
    assert not catalog.supports(Endpoint.CREATE_NAMESPACE)
    assert catalog.load_config().endpoints == frozenset({"GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/vendor"})


def test_unlisted_endpoints_are_requested_unless_the_check_is_strict(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"endpoints": ["GET /v1/{prefix}/namespaces"]}), path=CONFIG)
    peer.respond(in_json({}))
    connect(config_mode="always").list_tables("a")
    strict = connect(config_mode="always", endpoint_check="strict")
    strict.list_namespaces()
    sent = len(peer.received)
    with pytest.raises(UnsupportedEndpointError):
        strict.list_tables("a")
    assert len(peer.received) == sent


def test_header_fields_of_the_configuration_are_sent_unless_reserved(
    peer: HttpPeer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    fields = {"header.Authorization": "s3cr3t", "header.X-A": "1", "header.X-B": "2", "header.X-C": "a\r\nb"}
    peer.respond(in_json({"defaults": fields}), path=CONFIG)
    peer.respond(in_json({}))
    connect(config_mode="always", headers={"x-b": "mine"}).list_namespaces(headers={"X-D": "4"})
    headers = peer.received[1].headers
    assert headers["X-A"] == "1"
    assert headers.get_all("X-B") == ["mine"]
    assert headers["X-D"] == "4"
    assert headers["Authorization"] is None
    assert headers["X-C"] is None
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT30M", timedelta(minutes=30)),
        ("P1DT2H", timedelta(hours=26)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("P2W", timedelta(weeks=2)),
        *((text, None) for text in ("P1Y", "P1M", "x", "", "P", "PT", "P1D2H", "-PT1S", 5, None, "P" + "9" * 40 + "D")),
    ],
)
def test_durations(text: object, expected: timedelta | None) -> None:
    assert parsing.duration(text) == expected


def test_secrets_of_the_configuration_are_hidden(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"defaults": {"token": "s3cr3t"}, "overrides": {"credential": "id:s3cr3t"}}))
    config = connect().load_config()
    assert config.defaults["token"] == "s3cr3t"
    assert "s3cr3t" not in repr(config) + str(config.raw) + repr(config["defaults"])

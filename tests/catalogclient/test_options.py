"""Options, and their conversion from properties of other clients."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from catalogclient import (
    InvalidArgumentError,
    OAuth2ClientCredentials,
    RestCatalog,
    RestCatalogOptions,
    RetryPolicy,
    SigV4Auth,
    Timeout,
    _properties,
)
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, in_json

URI = {"uri": "http://127.0.0.1:1"}


def test_options_and_keywords_are_equivalent(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    options = RestCatalogOptions(base_url=peer.url, warehouse="w", config_mode="never")
    with RestCatalog(options) as one, RestCatalog(peer.url, warehouse="w", config_mode="never") as other:
        one.list_namespaces()
        other.list_namespaces()
    assert [request.target for request in peer.received] == ["/v1/w/namespaces"] * 2
    with pytest.raises(InvalidArgumentError):
        RestCatalog(options, warehouse="x")  # type: ignore[call-overload]


def test_from_mapping_accepts_spellings_of_the_javascript_client() -> None:
    mapping = {"baseUrl": "http://h", "catalogName": "c", "accessDelegation": ["vended-credentials"], "warehouse": None}
    options = RestCatalogOptions.from_mapping(mapping)
    assert (options.base_url, options.catalog_name) == ("http://h", "c")
    assert options.access_delegation == ["vended-credentials"]
    for wrong in ({"base_url": "http://h", "colour": 1}, {"warehouse": "w"}):
        with pytest.raises(InvalidArgumentError):
            RestCatalogOptions.from_mapping(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"timeout": 0}, {"timeout": (1, 2, 3)}, {"timeout": (1, -1)}, {"timeout": "5"}, {"timeout": float("nan")}),
        *({"total_timeout": 0}, {"max_response_bytes": 0}, {"pool_maxsize": 0}, {"namespace_separator": ""}),
        *({"config_mode": "x"}, {"config_fallback": "x"}, {"config_uri": "x"}, {"endpoint_check": "x"}),
        *(
            {"headers": {"Authorization": "x"}},
            {"headers": {"a b": "x"}},
            {"headers": {"a": "x\n"}},
            {"headers": {"a": "€"}},
        ),
        *({"user_agent": "a\r\nb"}, {"access_delegation": "vended-credentials"}, {"colour": 1}),
    ],
)
def test_invalid_options_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgumentError, TypeError)):
        RestCatalog("http://h", **wrong)


@pytest.mark.parametrize("name", sorted(["authorization", "COOKIE", "Host", "Content-Length", "idempotency-key"]))
def test_reserved_header_fields_are_rejected(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be set"):
        RestCatalogOptions(base_url="http://h", headers={name: "x"})


@pytest.mark.parametrize(
    "wrong", [{"max_attempts": 0}, {"backoff_base": 0}, {"max_retry_after": -1}, {"max_attempts": True}]
)
def test_invalid_retry_policies_are_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RetryPolicy(**wrong)


def test_forms_of_timeouts() -> None:
    assert Timeout.parse(5) == Timeout(5, 5)
    assert Timeout.parse((1, 2)) == Timeout(1, 2)
    assert Timeout.parse(None) == Timeout(None, None)
    assert Timeout.parse(Timeout(1, None)) == Timeout(1, None)


def test_repr_of_options_contains_no_secret() -> None:
    options = RestCatalogOptions(
        base_url="http://h",
        auth={"type": "bearer", "token": "s3cr3t"},
        headers={"X-Key": "s3cr3t"},
        proxies={"http": "http://u:s3cr3t@p"},
        properties={"token": "s3cr3t"},
    )
    assert "s3cr3t" not in repr(options)
    with RestCatalog("http://127.0.0.1:1/x", warehouse="w", auth={"type": "bearer", "token": "s3cr3t"}) as catalog:
        assert repr(catalog) == "RestCatalog('http://127.0.0.1:1/x', warehouse='w', auth=BearerAuth())"


def test_insecure_or_unusual_options_log_a_warning(peer: HttpPeer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "catalogclient")
    peer.respond(in_json({}))
    with RestCatalog(f"{peer.url}/iceberg/v1/", verify=False, config_mode="never") as catalog:
        catalog.list_namespaces()
    assert peer.received[0].target == "/iceberg/v1/v1/namespaces"
    assert len(caplog.records) == 2
    assert "/v1" in caplog.text
    assert "certificates" in caplog.text


def test_user_agent_precedes_that_of_the_library(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    connect(user_agent="mine/1").list_namespaces(headers={"X-Call": "1"})
    assert peer.received[0].headers["User-Agent"].startswith("mine/1 catalogclient/")
    assert peer.received[0].headers["X-Call"] == "1"


def test_properties_of_another_client(peer: HttpPeer) -> None:
    peer.respond(
        in_json({"defaults": {"snapshot-loading-mode": "all"}, "overrides": {"prefix": "p"}}), path="/v1/config"
    )
    peer.respond(in_json({"metadata": {}, "identifiers": []}))
    with RestCatalog.from_properties(
        {
            "uri": peer.url,
            "warehouse": "w",
            "token": "t0k",
            "header.X-A": "1",
            "header.X-Iceberg-Access-Delegation": "vended-credentials, remote-signing",
            "snapshot-loading-mode": "refs",
            "rest-page-size": "9",
            "namespace-separator": "%2E",
            "view-endpoints-supported": "true",
            "something-else": "x",
        },
        name="mine",
    ) as catalog:
        assert catalog.name == "mine"
        catalog.load_table("a.b.t")
        list(catalog.iter_tables("a"))
        assert catalog.supports("GET /v1/{prefix}/namespaces/{namespace}/views")
    config, load, tables = peer.received
    assert config.target == "/v1/config?warehouse=w"
    assert load.target == "/v1/p/namespaces/a%2Eb/tables/t?snapshots=refs"
    assert load.headers["X-Iceberg-Access-Delegation"] == "vended-credentials,remote-signing"
    assert load.headers["X-A"] == "1"
    assert load.headers["Authorization"] == "Bearer t0k"
    assert tables.target == "/v1/p/namespaces/a/tables?pageToken=&pageSize=9"


def test_a_configuration_without_prefix_means_no_prefix(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    with RestCatalog.from_properties({"uri": peer.url, "warehouse": "w"}) as catalog:
        assert catalog.prefix() == ""
    with RestCatalog.from_properties({"uri": peer.url, "prefix": "q"}) as catalog:
        catalog.list_namespaces()
    assert [request.target for request in peer.received] == ["/v1/config?warehouse=w", "/v1/config", "/v1/q/namespaces"]


def test_credentials_from_properties() -> None:
    auth = _properties.options(
        {**URI, "credential": "id:sec:ret", "scope": "s", "oauth2-server-uri": "http://h/t"}
    ).auth
    assert isinstance(auth, OAuth2ClientCredentials)
    assert (auth._client_id, auth._client_secret, auth._form["scope"]) == ("id", "sec:ret", "s")
    alone = _properties.options({**URI, "credential": "secret"}).auth
    assert isinstance(alone, OAuth2ClientCredentials)
    assert (alone._client_id, alone._client_secret) == (None, "secret")
    signing = _properties.options(
        {
            **URI,
            "rest.sigv4-enabled": "true",
            "client.region": "eu",
            "client.access-key-id": "AK",
            "client.secret-access-key": "SK",
        }
    ).auth
    assert isinstance(signing, SigV4Auth)
    assert repr(signing) == "SigV4Auth(region='eu', service='execute-api')"
    assert _properties.options(URI).auth is None


def test_limits_and_certificates_from_properties(tmp_path: Path) -> None:
    authority, certificate, key = (str(tmp_path / name) for name in ("ca.pem", "c.pem", "k.pem"))
    for name in (authority, certificate, key):
        Path(name).touch()
    options = _properties.options(
        {
            **URI,
            "rest.client.connection-timeout-ms": "1500",
            "rest.client.max-retries": "0",
            "ssl.cabundle": authority,
            "ssl.client.cert": certificate,
            "ssl.client.key": key,
            "header.X-Iceberg-Access-Delegation": "",
        }
    )
    assert options.timeout == Timeout(connect=1.5, read=60.0)
    assert options.retry is not None
    assert options.retry.max_attempts == 1
    assert (options.verify, options.cert, options.access_delegation) == (authority, (certificate, key), None)
    assert _properties.options({**URI, "ssl.client.cert": certificate}).cert == certificate


@pytest.mark.parametrize(
    "wrong", [{}, {"uri": ""}, {**URI, "rest.client.max-retries": "x"}, {**URI, "rest.sigv4-enabled": "true"}]
)
def test_invalid_properties_are_rejected(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        RestCatalog.from_properties(wrong)

"""Authentication with a real server: tokens, invalid tokens, no token and signatures."""

from __future__ import annotations

import pytest

from catalogclient import ForbiddenError, OAuthError, RestCatalog, UnauthorizedError
from catalogclient.auth import BearerAuth, SigV4Auth
from tests.catalogclient.servers.running import CatalogServer


def test_each_client_requests_its_own_token(seaweedfs: CatalogServer) -> None:
    with seaweedfs.connect() as catalog:
        assert catalog.prefix() == "warehouse"
        catalog.list_namespaces()


def test_the_default_token_endpoint_is_that_of_the_catalog(seaweedfs: CatalogServer) -> None:
    auth = {"type": "oauth2", "client_id": seaweedfs.client_id, "client_secret": seaweedfs.client_secret}
    with pytest.warns(DeprecationWarning, match="token"), seaweedfs.connect(auth=auth) as catalog:
        catalog.list_namespaces()


def test_properties_of_pyiceberg_connect_to_the_same_catalog(seaweedfs: CatalogServer) -> None:
    properties = seaweedfs.pyiceberg_properties()
    with RestCatalog.from_properties(properties) as catalog, seaweedfs.connect() as plain:
        assert catalog.list_namespaces() == plain.list_namespaces()


def test_a_wrong_secret_raises_oauth_error(seaweedfs: CatalogServer) -> None:
    auth = {**(seaweedfs.auth() or {}), "client_secret": "wrong-secret"}
    with seaweedfs.connect(auth=auth) as catalog, pytest.raises(OAuthError) as caught:
        catalog.list_namespaces()
    assert caught.value.error == "invalid_client"
    assert "wrong-secret" not in f"{caught.value!s}{caught.value!r}"


def test_wrong_and_missing_tokens_raise_different_errors(seaweedfs: CatalogServer) -> None:
    with seaweedfs.connect(auth=BearerAuth("wrong-token")) as catalog, pytest.raises(UnauthorizedError) as caught:
        catalog.list_namespaces()
    assert "wrong-token" not in f"{caught.value!s}{caught.value!r}"
    with seaweedfs.connect(auth=None) as catalog, pytest.raises(ForbiddenError):
        catalog.list_namespaces()


def test_requests_are_signed_with_sigv4(seaweedfs: CatalogServer) -> None:
    auth = SigV4Auth("us-east-1", access_key=seaweedfs.client_id, secret_key=seaweedfs.client_secret)
    with seaweedfs.connect(auth=auth) as catalog:
        name = ("signed", "two-levels")
        catalog.create_namespace(name[:1])
        catalog.create_namespace(name, {"a": "1"})
        assert catalog.load_namespace_metadata(name).properties["a"] == "1"
        assert [namespace.namespace for namespace in catalog.list_namespaces(parent="signed", page_size=5)] == [name]
        catalog.drop_namespace(name)
        catalog.drop_namespace(name[:1])

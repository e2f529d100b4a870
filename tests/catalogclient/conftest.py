"""Fixtures: fake and real catalog servers. A real server is started once per test process."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

from catalogclient import CatalogError, RestCatalog, RetryPolicy
from tests.catalogclient.servers import apache
from tests.catalogclient.servers import lakana as lakana_server
from tests.catalogclient.servers import nessie as nessie_server
from tests.catalogclient.servers import seaweedfs as seaweedfs_server
from tests.catalogclient.servers.running import CatalogServer
from tests.fakes.http_peer import HttpPeer

AT_ONCE = RetryPolicy(backoff_base=0.001, backoff_max=0.01)
"""Four attempts with short delays."""


untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Settings of property tests, which must pass on a busy machine too."""

plain_catalog = functools.partial(RestCatalog, config_mode="never")
"""Creates a catalog that does not request the configuration."""


class Connect(Protocol):
    def __call__(self, path: str = "", **options: Any) -> RestCatalog: ...


@pytest.fixture
def connect(peer: HttpPeer) -> Iterator[Connect]:
    """Create catalogs of the peer, which are closed after the test."""
    created: list[RestCatalog] = []

    def connected(path: str = "", **options: Any) -> RestCatalog:
        # Without a warehouse the tests are about single requests, so the configuration is not requested.
        mode = "auto" if {"warehouse", "catalog_name"} & set(options) else "never"
        created.append(RestCatalog(f"{peer.url}{path}", **{"retry": AT_ONCE, "config_mode": mode, **options}))
        return created[-1]

    yield connected
    for catalog in created:
        catalog.close()


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    with seaweedfs_server.serve(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def apache_servers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, CatalogServer]]:
    jars = request.config.cache.mkdir("catalog-jars")
    with apache.serve(tmp_path_factory.mktemp("apache"), cache=jars) as servers:
        yield servers


@pytest.fixture(scope="session")
def nessie(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, seaweedfs: CatalogServer
) -> Iterator[CatalogServer]:
    jars = request.config.cache.mkdir("catalog-jars")
    with nessie_server.serve(tmp_path_factory.mktemp("nessie"), cache=jars, storage=seaweedfs.storage) as server:
        yield server


@pytest.fixture(scope="session")
def lakana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    with lakana_server.serve(tmp_path_factory.mktemp("lakana")) as server:
        yield server


SERVERS = ["seaweedfs", "nessie", "apache", *(["lakana"] if lakana_server.program() else [])]
"""The other catalogs of Apache's program differ in planning and in names only. The tests of these request them."""


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> CatalogServer:
    """Every server in turn."""
    if request.param in ("seaweedfs", "nessie", "lakana"):
        only: CatalogServer = request.getfixturevalue(request.param)
        return only
    servers: dict[str, CatalogServer] = request.getfixturevalue("apache_servers")
    return servers[request.param]


@pytest.fixture
def catalog(server: CatalogServer) -> Iterator[RestCatalog]:
    with server.connect() as connected:
        yield connected


@pytest.fixture
def namespace(server: CatalogServer, catalog: RestCatalog) -> Iterator[str]:
    """Namespace of this test. It is emptied and dropped afterwards."""
    name = server.namespace or f"test_{secrets.token_hex(4)}"
    catalog.create_namespace_if_not_exists(name)
    yield name
    empty(catalog, (name,))


def empty(catalog: RestCatalog, namespace: tuple[str, ...]) -> None:
    """Drop a namespace with its content. Objects that cannot be dropped remain."""
    for child in list(catalog.iter_namespaces(parent=namespace)):
        if len(child.namespace) > len(namespace):
            empty(catalog, child.namespace)
    for table in list(catalog.iter_tables(namespace)):
        with contextlib.suppress(CatalogError):
            catalog.drop_table(table)
    # Some servers do not support views.
    with contextlib.suppress(CatalogError):
        for view in list(catalog.iter_views(namespace)):
            catalog.drop_view(view)
    with contextlib.suppress(CatalogError):
        catalog.drop_namespace(namespace)

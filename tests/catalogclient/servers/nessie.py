"""Project Nessie, a catalog server with branches (Java). Maven fetches its jar; its table files are in S3 storage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests

from tests.catalogclient.servers import maven, process
from tests.catalogclient.servers.running import Ability, CatalogServer

JAR = {
    "org.projectnessie.nessie:nessie-quarkus:0.99.0:runner": (
        "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417"
    )
}
"""Its Maven coordinates and SHA-256: 245 MB with all dependencies."""
OLDEST_JAVA = 21
BRANCH = "main"
"""The default branch is the prefix of all paths."""


@contextlib.contextmanager
def serve(folder: Path, *, cache: Path, storage: Mapping[str, str]) -> Iterator[CatalogServer]:
    """Run the server in `folder` inside the block, with its files in S3 `storage`."""
    java = maven.java(OLDEST_JAVA, server="Nessie")
    jar = maven.class_path(JAR, cache, server="Nessie")
    port, management_port = process.free_ports(2)
    base_url = f"http://127.0.0.1:{port}/iceberg"
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": management_port,
        "quarkus.http.access-log.enabled": "false",
        "quarkus.oidc.tenant-enabled": "false",
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        # Concurrent commits must not fail because the machine is busy.
        "nessie.version.store.persist.commit-timeout-millis": 60_000,
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": "s3://nessie/",
        f"{s3}.endpoint": storage["s3.endpoint"],
        f"{s3}.region": storage["s3.region"],
        f"{s3}.path-style-access": "true",
        f"{s3}.request-signing-enabled": "false",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:storage",
        "storage.name": storage["s3.access-key-id"],
        "storage.secret": storage["s3.secret-access-key"],
    }
    command = [
        java,
        "-Xmx512m",
        # The fast compiler is sufficient for a short run.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-jar",
        jar,
    ]
    with process.running(command, folder=folder, is_ready=lambda: _is_ready(base_url)):
        yield CatalogServer(
            name="nessie",
            base_url=base_url,
            configured_prefix=BRANCH,
            storage=storage,
            abilities=Ability.WHOLE | Ability.CREATES_ONCE | Ability.STAGED_CREATE | Ability.FILES,
        )


def _is_ready(base_url: str) -> bool:
    try:
        return requests.get(f"{base_url}/v1/config", timeout=5).status_code == 200
    except requests.RequestException:
        return False

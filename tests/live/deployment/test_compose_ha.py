"""Runs the scripts of `compose.ha.yaml` on loopback, and fails over from one PostgreSQL to the other.

Only Docker and the images are missing: Debian has the programs, and `IMAGE` does what the image of PostgreSQL does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
import yaml

from tests import debian_postgresql, ports
from tests.live import servers as live
from tests.live import sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.deployment import programs
from tests.live.documentation import pages
from tests.timeouts import wait_until

SCRIPTS = programs.DEPLOY / "compose"
SETTINGS = yaml.safe_load((pages.PROJECT / "compose.ha.yaml").read_text())["services"]["server-1"]["environment"]
POOLED_QUERY = SETTINGS["DATABASE_URL"].rpartition("?")[2]
PASSWORDS = {"DATABASE_PASSWORD": "of-the-service", "REPLICATION_PASSWORD": "of-the-standby"}
FAILOVER_SECONDS = 15
IMAGE = """#!/bin/sh
set -eu
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    initdb -U postgres --auth=trust --no-sync >/dev/null
    printf 'local all all trust\\nhost all all all scram-sha-256\\n' > "$PGDATA/pg_hba.conf"
    pg_ctl -w -o "-k $SOCKETS -p $OWN_PORT -c listen_addresses=''" start >/dev/null
    PGHOST=$SOCKETS PGPORT=$OWN_PORT "$ROLES"
    pg_ctl -w stop
fi
exec "$@"
"""


class Node:
    """One PostgreSQL server of the file."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.port = ports.free_port()
        self.data = folder / "server"
        self._binaries = binaries
        # PostgreSQL does not run as root; its package creates a system user.
        self._account = "postgres" if os.geteuid() == 0 else ""
        folder.mkdir()
        image = folder / "docker-entrypoint.sh"
        image.write_text(IMAGE)
        image.chmod(0o755)
        for script in ("postgres.sh", "roles.sh"):
            shutil.copy(SCRIPTS / script, folder)
        if self._account:
            shutil.chown(folder, self._account)

    def command(self, *arguments: str | Path) -> list[str | Path]:
        account = self._account
        return [*(("setpriv", "--reuid", account, "--regid", account, "--init-groups") if account else ()), *arguments]

    def env(self, other: Node, *, primary: Node) -> dict[str, str]:
        return {
            **PASSWORDS,
            "PATH": f"{self.folder}:{self._binaries}:{os.environ['PATH']}",
            "PGDATA": str(self.data),
            "OTHER_HOST": "127.0.0.1",
            "OWN_HOST": self.folder.name,
            "PRIMARY": primary.folder.name,
            "PGPORT": str(other.port),
            "OWN_PORT": str(self.port),
            "SOCKETS": str(self.folder),
            "ROLES": str(self.folder / "roles.sh"),
        }

    def script(self) -> list[str | Path]:
        options = ["-p", str(self.port), "-k", str(self.folder), "-c", "fsync=off", "-c", "wal_keep_size=512MB"]
        return self.command("sh", self.folder / "postgres.sh", *options)

    @contextlib.contextmanager
    def running(self, other: Node, *, primary: Node) -> Iterator[int]:
        log = self.folder / "log"
        with programs.running(self.script(), log=log, port=self.port, env=self.env(other, primary=primary)) as pid:
            yield pid

    def promote(self) -> None:
        ran = self.command(self._binaries / "pg_ctl", "promote", "-w", "-D", self.data)
        subprocess.run(ran, check=True, stdout=subprocess.DEVNULL)

    def query(self, statement: str) -> Any:
        """The first value of the result; None while the server starts."""
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(host=str(self.folder), port=self.port, user="postgres", dbname="authsvc") as connection,
        ):
            row = connection.execute(statement).fetchone()
            return row and row[0]
        return None

    def has_user(self, email: str) -> bool:
        return bool(self.query(f"SELECT count(*) FROM users WHERE email = '{email}'"))


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    binaries = debian_postgresql.binaries("plpgsql")
    if binaries is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("Debian's PostgreSQL is not installed")
    # The system user may not enter pytest's directories, and socket paths have a length limit.
    folder = Path(tempfile.mkdtemp(prefix="authsvc-compose-"))
    folder.chmod(0o755)
    try:
        yield Node(folder / "a", binaries), Node(folder / "b", binaries)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def pooler(folder: Path, node: Node, port: int) -> Iterator[None]:
    """PgBouncer in front of this server."""
    document = programs.replace_texts(
        (programs.DEPLOY / "pgbouncer.ini").read_text(),
        {
            "host=127.0.0.1 port=5432": f"host=127.0.0.1 port={node.port}",
            "listen_port = 6432": f"listen_port = {port}\nunix_socket_dir =",
        },
    )
    file = folder / f"pgbouncer-{port}.ini"
    file.write_text(document)
    as_user = programs.AS_UNPRIVILEGED_USER if os.geteuid() == 0 else ()
    command = [*as_user, "sh", SCRIPTS / "pgbouncer.sh", file]
    env = {**PASSWORDS, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder), "POSTGRES_HOST": "127.0.0.1"}
    stop = programs.PGBOUNCER_STOP_SIGNAL
    with programs.running(command, log=folder / f"pgbouncer-{port}.log", port=port, env=env, stop_signal=stop):
        yield


def test_service_follows_promoted_standby_and_former_primary_returns_as_standby(
    tmp_path: Path, nodes: tuple[Node, Node]
) -> None:
    pgbouncer = programs.find_recent_pgbouncer()
    # The script starts `pgbouncer`.
    (tmp_path / "pgbouncer").symlink_to(pgbouncer)
    first, second = nodes
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(contextlib.ExitStack())
        pid = primary.enter_context(first.running(second, primary=first))
        standby = stack.enter_context(contextlib.ExitStack())
        standby.enter_context(second.running(first, primary=first))
        pooler_ports = [ports.free_port(), ports.free_port()]
        poolers = stack.enter_context(contextlib.ExitStack())
        for port in pooler_ports:
            poolers.enter_context(pooler(tmp_path, first, port))
        pooled = ",".join(f"127.0.0.1:{port}" for port in pooler_ports)
        direct = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        role = f"postgres://authsvc:{PASSWORDS['DATABASE_PASSWORD']}"
        mailbox = stack.enter_context(MailboxServer())
        env = {**SETTINGS, **sign_ups.settings_for(mailbox), "WEB_CONCURRENCY": "1"}
        for name in ("DATABASE_URL", "AUTH_JWT_SECRET", "AUTH_API_EXTERNAL_URL", "AUTH_MAILER_DEV_INBOX_ENABLED"):
            del env[name]
        if not programs.can_prepare_statements(pgbouncer):
            del env["AUTH_DB_TRANSACTION_POOLING_ENABLED"]
            env |= programs.pooling_settings(has_prepared_statements=False)
        server = live.LiveServer(folder=tmp_path, database_url=f"{role}@{pooled}/authsvc?{POOLED_QUERY}", env=env)
        worker = live.LiveServer(
            folder=tmp_path, database_url=f"{role}@{direct}/authsvc", env=env, command=programs.WORKER
        )
        for process in (server, worker):
            stack.callback(process.kill)
            process.launch()
        server.wait()
        sign_ups.sign_up_to_sign_in(server, mailbox, "ada@example.com")
        wait_until(lambda: second.has_user("ada@example.com"), "replication")
        assert second.query("SELECT pg_is_in_recovery()")

        os.kill(pid, signal.SIGKILL)
        primary.close()
        standby.close()
        standby.enter_context(second.running(first, primary=second))
        poolers.close()
        for port in pooler_ports:
            poolers.enter_context(pooler(tmp_path, second, port))
        # PgBouncer learns from these connections that its server is a standby, and keeps it in mind.
        assert {_sign_in(server, "ada@example.com").status_code for _ in range(4)} == {503}
        second.promote()
        promoted = time.monotonic()
        wait_until(lambda: _sign_in(server, "ada@example.com").status_code == 200, "the promoted standby")
        assert time.monotonic() - promoted < FAILOVER_SECONDS
        sign_ups.sign_up_to_sign_in(server, mailbox, "ben@example.com")

        for named in (first, second):
            again = subprocess.run(
                first.script(),
                env=first.env(second, primary=named),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (again.returncode, "is or will be the primary" in again.stderr) == (1, True), again.stderr
        shutil.rmtree(first.data)
        stack.enter_context(first.running(second, primary=second))
        wait_until(lambda: first.has_user("ben@example.com"), "the former primary as a standby")
        assert first.query("SELECT pg_is_in_recovery()")
        assert {_sign_in(server, "ben@example.com").status_code for _ in range(20)} == {200}


def test_a_standby_without_data_waits_for_the_primary(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    with pytest.raises(subprocess.TimeoutExpired) as waiting:  # for the primary, which is down
        subprocess.run(
            first.script(), env=first.env(second, primary=second), timeout=3, check=False, capture_output=True
        )
    assert b"Connection refused" in (waiting.value.stderr or b"")
    assert not first.data.exists()


def test_a_standby_replaces_an_empty_directory(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    subprocess.run(second.command("mkdir", second.data), check=True)
    with first.running(second, primary=first), second.running(first, primary=first):
        wait_until(lambda: second.query("SELECT pg_is_in_recovery()"), "the standby")


def test_a_server_whose_first_start_was_interrupted_does_not_start(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    with first.running(second, primary=first):
        pass
    rules = first.data / "pg_hba.conf"
    rules.write_text(rules.read_text().replace("host replication replicator", "# "))
    again = subprocess.run(
        first.script(), env=first.env(second, primary=first), capture_output=True, text=True, timeout=60, check=False
    )
    assert (again.returncode, "The first start of a was interrupted" in again.stderr) == (1, True), again.stderr


def _sign_in(server: live.LiveServer, email: str) -> requests.Response:
    body = {"email": email, "password": sign_ups.PASSWORD}
    return requests.post(f"{server.url}/token?grant_type=password", json=body, timeout=60)

"""A primary and a standby of Debian's PostgreSQL with synchronous streaming replication on loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from tests import debian_postgresql, ports
from tests.live.processes import are_gone
from tests.timeouts import wait_until

SUPERUSER = "postgres"
ROLE = "authsvc"
"""The role of the service, without the connections that PostgreSQL reserves for superusers."""
DATABASE = "authsvc"
MAX_CONNECTIONS = 120
WAIT_SECONDS = 60

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": str(MAX_CONNECTIONS),
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    # More than a fault keeps from the standby, without which no commit ends.
    "wal_keep_size": "256MB",
    "synchronous_commit": "on",
    "wal_receiver_status_interval": "1s",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
}


class Node:
    """One PostgreSQL server. `folder` contains `data` and `log`."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = ports.free_port()
        self._programs = programs
        # PostgreSQL does not run as root; its package creates a system user.
        self._account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        folder.mkdir()
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run a program of PostgreSQL; raises CalledProcessError after printing its output to the log."""
        account = self._account
        # The server would keep a pipe open.
        with (self.folder / "log").open("ab") as output:
            subprocess.run(
                [self._programs / program, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=[] if account else None,
                start_new_session=True,
            )

    def create(self) -> None:
        options = "--auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync"
        self.run("initdb", "-D", self.data, "-U", SUPERUSER, *options.split())
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())

    def start(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-o", f"-p {self.port}", "-w", "-t", str(WAIT_SECONDS), "start")

    def processes(self) -> list[psutil.Process]:
        """The server with its children, or nothing if it does not run."""
        with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess, IndexError):
            server = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
            if server.name() == "postgres":
                return [server, *server.children(recursive=True)]
        return []

    def kill(self) -> None:
        """Kill all processes at once, as the loss of the machine does."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        wait_until(lambda: are_gone(processes), "PostgreSQL to exit")
        # In containers without a reaping init process, zombies keep the process ID in this file in use.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Stop all processes without closing their connections, as the loss of the network does."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def is_frozen(self) -> bool:
        processes = self.processes()
        return bool(processes) and all(process.status() == psutil.STATUS_STOPPED for process in processes)

    def logged(self, text: str) -> bool:
        return text in (self.folder / "log").read_text(errors="replace")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-w", "-t", str(WAIT_SECONDS), "promote")

    def connect(self, *, database: str = DATABASE, user: str = SUPERUSER) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=database, user=user, autocommit=True, connect_timeout=10
        )

    def execute(self, statement: str, *, database: str = DATABASE) -> None:
        with self.connect(database=database) as connection:
            connection.execute(sql.SQL(statement))


class Pair:
    """A primary and its standby, which change roles. A commit waits for the standby while replication is synchronous.

    The methods do what an operator or Patroni does.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.primary = Node(folder / "a", programs)
        self.standby = Node(folder / "b", programs)

    @property
    def url(self) -> str:
        """DATABASE_URL with both hosts, which does not change at a failover."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in sorted((self.primary.port, self.standby.port)))
        return f"postgresql://{ROLE}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    @property
    def primary_url(self) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.primary.port}/{DATABASE}"

    def start(self) -> None:
        self.primary.create()
        self.primary.start()
        self.primary.execute(f"CREATE ROLE {ROLE} LOGIN", database="postgres")
        self.primary.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}", database="postgres")
        self.primary.execute("CREATE EXTENSION amcheck")
        self.build_standby()

    def build_standby(self) -> None:
        """Copy the primary to the other node, which must not run, and wait until commits are synchronous."""
        standby, primary = self.standby, self.primary
        standby.kill()
        for entry in standby.data.iterdir() if standby.data.exists() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        source = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} application_name=standby"
        standby.run("pg_basebackup", "-D", standby.data, "-d", source, "-R", "-c", "fast", "-X", "stream", "--no-sync")
        # After a promotion, this server has no standby to wait for.
        with (standby.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")
        standby.start()
        self.set_synchronous(True)

    def set_synchronous(self, is_on: bool) -> None:
        """Make commits wait for the standby or not; return once it is in effect."""
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'standby' if is_on else ''}'")
        self.primary.execute("SELECT pg_reload_conf()")
        if is_on:
            wait_until(self.is_synchronous, "a synchronous standby")

    def is_synchronous(self) -> bool:
        with self.primary.connect() as connection:
            query = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            return connection.execute(query).fetchone() is not None

    def promote_standby(self) -> None:
        """Make the standby the primary; `build_standby` then replaces the former primary."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def stop(self) -> None:
        for node in (self.standby, self.primary):
            node.kill()


@contextlib.contextmanager
def running_pair(programs: Path, *, primary_megabytes: int = 0) -> Iterator[Pair]:
    """A primary with a synchronous standby; with `primary_megabytes`, on a file system of this size (needs root)."""
    folder = Path(tempfile.mkdtemp(prefix="authsvc-deployment-"))
    folder.chmod(0o755)
    pair = Pair(folder, programs)
    mount = pair.primary.folder
    try:
        if primary_megabytes:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={primary_megabytes}m,mode=777", "none", mount], check=True
            )
        try:
            pair.start()
            yield pair
        finally:
            pair.stop()
            if primary_megabytes:
                subprocess.run(["umount", mount], check=True)
    finally:
        shutil.rmtree(folder)


def find_programs() -> Path | None:
    """The program directory of Debian's newest PostgreSQL with the extension amcheck, or None."""
    return debian_postgresql.binaries("amcheck")

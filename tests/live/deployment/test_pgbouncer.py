"""Runs the service behind PgBouncer in transaction mode with the configuration in `deploy/`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from psycopg import conninfo, sql

from tests import ports
from tests.live import servers as live
from tests.live import sign_ups
from tests.live.clients.mailbox_server import MailboxServer
from tests.live.deployment import programs
from tests.timeouts import wait_until

PASSWORD = "of the pooler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooler:
    url: str
    """URL of the service's database through the pooler."""
    direct_url: str
    admin_url: str
    """URL of the pooler's statistics database."""


@pytest.fixture(params=[False, True])
def has_prepared_statements(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def pooler(tmp_path: Path, fresh_database_url: str, has_prepared_statements: bool) -> Iterator[Pooler]:
    """PgBouncer of Debian, or a recent one for prepared statements."""
    program = programs.find_recent_pgbouncer() if has_prepared_statements else programs.find("pgbouncer")
    if has_prepared_statements and not programs.can_prepare_statements(program):
        pytest.skip(
            f"{program} cannot prepare statements; tests.live.deployment.install_pgbouncer installs another one"
        )
    target = conninfo.conninfo_to_dict(fresh_database_url)
    port = ports.free_port()
    users = tmp_path / "userlist.txt"
    users.write_text(f'"{target["user"]}" "{PASSWORD}"\n')
    address = " ".join(f"{name}={target[name]}" for name in ("host", "port", "dbname") if name in target)
    document = programs.replace_texts(
        (programs.DEPLOY / "pgbouncer.ini").read_text(),
        {
            "authsvc = host=127.0.0.1 port=5432 dbname=authsvc": f"authsvc = {address}",
            "listen_port = 6432": f"listen_port = {port}\nunix_socket_dir =\nadmin_users = {target['user']}",
            "/etc/pgbouncer/userlist.txt": str(users),
            # Fewer than the service opens, so that sessions share server connections.
            "default_pool_size = 20": "default_pool_size = 4",
        },
    )
    file = tmp_path / "pgbouncer.ini"
    file.write_text(document)
    command = [*(programs.AS_UNPRIVILEGED_USER if os.geteuid() == 0 else ()), program, str(file)]
    with programs.running(
        command, log=tmp_path / "pgbouncer.log", port=port, stop_signal=programs.PGBOUNCER_STOP_SIGNAL
    ):
        url = f"postgresql://{target['user']}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}"
        yield Pooler(
            url=f"{url}/authsvc",
            direct_url=fresh_database_url,
            admin_url=f"{url}/pgbouncer",
        )


def test_servers_and_worker_run_behind_transaction_pooler(
    tmp_path: Path, pooler: Pooler, has_prepared_statements: bool
) -> None:
    with MailboxServer() as mailbox:
        env = {
            **sign_ups.settings_for(mailbox),
            **programs.pooling_settings(has_prepared_statements=has_prepared_statements),
            "AUTH_MAILER_WORKER_ENABLED": "false",
            "WEB_CONCURRENCY": "1",
        }
        # Both start on an empty database and migrate through the pooler, one after the other.
        servers = [live.LiveServer(folder=tmp_path, database_url=pooler.url, env=env) for _ in range(2)]
        worker = live.LiveServer(folder=tmp_path, database_url=pooler.url, env=env, command=programs.WORKER)
        try:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait()
            worker.launch()
            for number, server in enumerate(servers):
                _use_account(server, mailbox, f"ada{number}@example.com")
            wait_until(lambda: live.count_rows(pooler.direct_url, "procrastinate_jobs") == 0, "an empty queue")
            prepared = [int(server.get("prepared_statements", 0)) for server in _show(pooler, "SERVERS")]
            assert any(prepared) == has_prepared_statements
            assert [process.stop() for process in (*servers, worker)] == [0, 0, 0]
        finally:
            for process in (*servers, worker):
                with contextlib.suppress(RuntimeError):  # never launched
                    process.kill()
    assert not [process for process in (*servers, worker) if "Traceback" in process.log.read_text()]
    assert _transactions(pooler) > 100


def test_doctor_asks_for_the_limits_of_sessions_behind_the_pooler(
    tmp_path: Path, pooler: Pooler, has_prepared_statements: bool
) -> None:
    def advises() -> bool:
        doctor = live.LiveServer(
            folder=tmp_path,
            database_url=pooler.url,
            env=programs.pooling_settings(has_prepared_statements=has_prepared_statements),
            command=(str(live.PROJECT / "manage.py"), "doctor"),
        )
        doctor.launch()
        doctor.process.wait(timeout=60)
        output = doctor.log.read_text()
        assert "pooler: a pooler" in output
        return "SET idle_in_transaction_session_timeout = '40s'" in output

    assert advises()
    with psycopg.connect(pooler.direct_url, autocommit=True) as database:
        # Of this database only, because other tests use the role.
        name = sql.Identifier(database.info.dbname)
        database.execute(sql.SQL("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '40s'").format(name))
    with psycopg.connect(pooler.admin_url, autocommit=True) as console, psycopg.ClientCursor(console) as cursor:
        cursor.execute("RECONNECT")
    assert not advises()


def _use_account(server: live.LiveServer, mailbox: MailboxServer, email: str) -> None:
    """Sign up, open the link, sign in, read the user and refresh, more often than the pooler has connections."""
    access = sign_ups.sign_up_to_sign_in(server, mailbox, email)
    shown = requests.get(f"{server.url}/user", headers={"Authorization": f"Bearer {access}"}, timeout=60)
    assert shown.json()["email"] == email
    body = {"email": email, "password": sign_ups.PASSWORD}
    session = requests.post(f"{server.url}/token?grant_type=password", json=body, timeout=60).json()
    for _ in range(6):
        body = {"refresh_token": session["refresh_token"]}
        response = requests.post(f"{server.url}/token?grant_type=refresh_token", json=body, timeout=60)
        assert response.status_code == 200, response.text
        session = response.json()


def _transactions(pooler: Pooler) -> int:
    """The number of transactions that the pooler passed to the service's database."""
    [count] = [total["xact_count"] for total in _show(pooler, "STATS_TOTALS") if total["database"] == "authsvc"]
    return int(count)


def _show(pooler: Pooler, what: str) -> list[dict[str, Any]]:
    with psycopg.connect(pooler.admin_url, autocommit=True) as console, psycopg.ClientCursor(console) as cursor:
        cursor.execute(sql.SQL("SHOW {}").format(sql.SQL(what)))
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

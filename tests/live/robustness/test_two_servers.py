"""Starts servers concurrently on an empty database."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from tests.live import servers as live
from tests.live import sign_ups
from tests.live.clients.mailbox_server import MailboxServer


def migrations_applied(server: live.LiveServer) -> int:
    """The number of applied migrations that the server logged at its start."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    [number] = [line["count"] for line in lines if line["msg"] == "migrations applied"]
    return int(number)


def test_concurrent_servers_migrate_and_start(tmp_path: Path, empty_database_url: str, mailbox: MailboxServer) -> None:
    env = {**sign_ups.settings_for(mailbox), "WEB_CONCURRENCY": "1"}
    servers = [
        live.LiveServer(folder=tmp_path, database_url=empty_database_url, env={**env, "AUTH_DB_NAMESPACE": namespace})
        for namespace in ("", "", "other")
    ]
    for server in servers:
        server.launch()
    for server in servers:
        server.wait()
    for number, server in enumerate(servers):
        sign_ups.sign_up_to_sign_in(server, mailbox, f"person{number}@example.com")

    assert [server.stop() for server in servers] == [0, 0, 0]
    first, second, third = map(migrations_applied, servers)
    assert min(first, second) == 0
    assert third > 0
    with psycopg.connect(empty_database_url) as connection:
        query = "SELECT count(*), count(DISTINCT (app, name)) FROM django_migrations"
        total, different = connection.execute(query).fetchone() or (0, 0)
    assert total == different > 0

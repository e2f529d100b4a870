"""Measures the OAuth server with a million grants: `python -m tests.performance.grants --database postgresql://…`.

Fills a new database on that server, or on a private one, and serves it. Measures userinfo, refresh and the list of a
user's grants over HTTP before and after, one request after the other, prints the plans of the statements that search
these tables, and drops the database at the end. Takes about four minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import psycopg

from authsvc.db import embedded
from tests.live.servers import LiveServer
from tests.performance import crowd
from tests.performance.bench import cpu_seconds
from tests.performance.crowd import Connection
from tests.performance.million import PASSWORD, database, manage, say

CLIENTS = 50
GRANTS_PER_USER = 10
CALLBACK = "https://client.example.com/cb"
VERIFIER = "v" * 43
SETTINGS = {
    "AUTH_LOG_LEVEL": "error",
    "AUTH_MAILER_AUTOCONFIRM": "true",
    "AUTH_OAUTH_SERVER_ENABLED": "true",
    "AUTH_OAUTH_SERVER_AUTHORIZATION_PATH": "/oauth/consent",
    "AUTH_RATE_LIMIT_TOKEN_REFRESH": "1000000000",
}
FILL = {
    "oauth_clients": f"""
        INSERT INTO oauth_clients (id, client_secret_hash, registration_type, redirect_uris, grant_types, client_name,
            client_type, token_endpoint_auth_method)
        SELECT gen_random_uuid(), '', 'manual', '{CALLBACK}', 'authorization_code,refresh_token', 'Client ' || n,
            'public', 'none'
        FROM generate_series(1, {CLIENTS}) n
    """,
    "oauth_consents": f"""
        INSERT INTO oauth_consents (id, user_id, client_id, scopes, granted_at)
        SELECT gen_random_uuid(), u.id, c.id, 'openid email', now() - u.n * interval '1 second' - c.n * interval '1 day'
        FROM (SELECT id, row_number() OVER () AS n FROM users) u
        JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n FROM oauth_clients) c
            ON (c.n + u.n) % {CLIENTS // GRANTS_PER_USER} = 0
        ON CONFLICT DO NOTHING
    """,
    "sessions": """
        INSERT INTO sessions (id, user_id, created_at, updated_at, aal, oauth_client_id, scopes)
        SELECT gen_random_uuid(), user_id, granted_at, granted_at, 'aal1', client_id, scopes FROM oauth_consents
    """,
    "oauth_authorizations": f"""
        INSERT INTO oauth_authorizations (id, authorization_id, client_id, user_id, redirect_uri, scope, status,
            authorization_code, created_at, expires_at)
        SELECT gen_random_uuid(), md5(id::text), client_id, user_id, '{CALLBACK}', scopes, 'exchanged',
            md5('code' || id), now(), now() + interval '10 minutes'
        FROM oauth_consents LIMIT 100000
    """,
}
"""Table → the statement that fills it."""


class Caller:
    """One persistent connection to the server."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)

    def send(
        self, method: str, path: str, *, bearer: str = "", form: dict[str, str] | None = None, body: Any = None
    ) -> Any:
        """The JSON of a response, or the target of a redirect."""
        content = json.dumps(body) if body is not None else urlencode(form) if form else ""
        headers = {"Content-Type": "application/json" if body is not None else "application/x-www-form-urlencoded"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        raw = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{path}: {response.status} {raw[:300]!r}")
        return response.getheader("Location") if response.status == 302 else json.loads(raw)


class User:
    """A user who has granted access to a client, and the client's tokens."""

    def __init__(self, caller: Caller, *, number: int, client_id: str) -> None:
        self._caller, self._client_id = caller, client_id
        account = {"email": f"measured{number}@example.org", "password": PASSWORD}
        self.bearer = caller.send("POST", "/signup", body=account)["access_token"]
        query = {
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid email",
            "code_challenge": VERIFIER,
            "code_challenge_method": "plain",
        }
        page = caller.send("GET", f"/oauth/authorize?{urlencode(query)}")
        request = f"/oauth/authorizations/{parse_qs(urlsplit(page).query)['authorization_id'][0]}"
        caller.send("GET", request, bearer=self.bearer)
        approved = caller.send("POST", f"{request}/consent", bearer=self.bearer, body={"action": "approve"})
        code = parse_qs(urlsplit(approved["redirect_url"]).query)["code"][0]
        self.tokens = self._request_token(grant_type="authorization_code", code=code, code_verifier=VERIFIER)

    def read_userinfo(self) -> Any:
        return self._caller.send("GET", "/oauth/userinfo", bearer=self.tokens["access_token"])

    def refresh(self) -> None:
        self.tokens = self._request_token(grant_type="refresh_token", refresh_token=self.tokens["refresh_token"])

    def list_grants(self) -> Any:
        return self._caller.send("GET", "/user/oauth/grants", bearer=self.bearer)

    def _request_token(self, **form: str) -> Any:
        return self._caller.send("POST", "/oauth/token", form={"client_id": self._client_id, **form})


def measure(server: LiveServer, name: str, request: Callable[[], Any], *, times: int) -> str:
    """A line with the milliseconds of a request, and the CPU time of the server's processes."""
    request()
    took, before = [], cpu_seconds(server.process.pid)
    for _ in range(times):
        begun = time.perf_counter()
        request()
        took.append((time.perf_counter() - begun) * 1000)
    spent = (cpu_seconds(server.process.pid) - before) / times * 1000
    p95 = statistics.quantiles(took, n=20)[-1]
    return f"{name:44}{statistics.median(took):8.2f}{p95:8.2f}{spent:8.2f}"


def measure_all(server: LiveServer, connection: Connection, *, label: str, number: int, times: int) -> list[str]:
    caller = Caller(server.url)
    (client_id,) = connection.execute("SELECT id::text FROM oauth_clients ORDER BY id LIMIT 1").fetchone() or ("",)
    user = User(caller, number=number, client_id=client_id)
    connection.execute(
        FILL["oauth_consents"]
        .replace("FROM users)", f"FROM users WHERE email = 'measured{number}@example.org')")
        .encode()
    )
    granted = len(user.list_grants())
    return [
        measure(server, f"userinfo, {label}", user.read_userinfo, times=times),
        measure(server, f"refresh, {label}", user.refresh, times=times),
        measure(server, f"list of {granted} grants, {label}", user.list_grants, times=times),
    ]


def explain(connection: Connection) -> list[str]:
    """The plans of the statements that search the filled tables."""
    user, client = connection.execute("SELECT user_id, client_id FROM oauth_consents LIMIT 1").fetchone() or (
        None,
        None,
    )
    statements = {
        "grants of a user": (
            "SELECT * FROM oauth_consents g JOIN oauth_clients c ON c.id = g.client_id WHERE g.user_id = %(user)s"
            " AND g.revoked_at IS NULL AND c.deleted_at IS NULL ORDER BY g.granted_at DESC, g.id DESC"
        ),
        "consent of a user and client": (
            "SELECT scopes FROM oauth_consents"
            " WHERE user_id = %(user)s AND client_id = %(client)s AND revoked_at IS NULL"
        ),
        "sessions of a user and client": (
            "SELECT id FROM sessions WHERE user_id = %(user)s AND oauth_client_id = %(client)s"
        ),
        "requests of a user and client": (
            "SELECT id FROM oauth_authorizations WHERE user_id = %(user)s AND client_id = %(client)s"
        ),
        "code": "SELECT id FROM oauth_authorizations WHERE authorization_code = md5('code') AND status = 'approved'",
    }
    lines = []
    for name, statement in statements.items():
        rows = connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS) {statement}".encode(), {"user": user, "client": client}
        ).fetchall()
        lines += [f"\n{name}", *(str(row[0]) for row in rows)]
    return lines


def run(url: str, folder: Path, *, users: int, times: int) -> None:
    manage(url, "migrate", "--verbosity", "0")
    settings = {**SETTINGS, "AUTH_JWT_KEYS": manage(url, "generate_keys")}
    lines = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL["oauth_clients"].encode())
        with LiveServer(folder=folder, database_url=url, env=settings) as server:
            lines += measure_all(server, connection, label="empty tables", number=1, times=times)
            begun = time.monotonic()
            crowd.fill(connection, 1, users)
            for table in ("oauth_consents", "sessions", "oauth_authorizations"):
                connection.execute(FILL[table].encode())
            connection.execute("VACUUM ANALYZE oauth_clients, oauth_consents, sessions, oauth_authorizations")
            (grants,) = connection.execute("SELECT count(*) FROM oauth_consents").fetchone() or (0,)
            lines.append(f"{grants:,} grants and sessions filled in: {time.monotonic() - begun:.0f} s")
            lines += measure_all(server, connection, label="filled tables", number=2, times=times)
        lines += explain(connection)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    say("\n".join([f"{'ms':44}{'p50':>8}{'p95':>8}{'CPU':>8}   (load of the machine: {load})", *lines]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the OAuth server with a million grants.")
    parser.add_argument("--database", default="", help="URL of a PostgreSQL server that allows CREATE DATABASE")
    parser.add_argument("--users", type=int, default=100_000, help="each with ten grants (default: %(default)s)")
    parser.add_argument("--times", type=int, default=300, help="requests per type (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the database for inspection")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="authsvc-grants-") as folder:
        server = options.database or embedded.start(Path(folder) / "pg", settings={"max_wal_size": "4GB"})
        try:
            with database(server, keep=options.keep) as url:
                run(url, Path(folder), users=options.users, times=options.times)
        finally:
            if not options.database:
                embedded.stop(Path(folder) / "pg")


if __name__ == "__main__":
    main()

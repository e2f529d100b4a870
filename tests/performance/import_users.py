"""Measures time and memory of `import_reference`: `python -m tests.performance.import_users --users 1000000`.

Creates a reference database with that many users, each with a password, an identity, a session and a refresh token.
Imports it twice into a fresh database, with durable commits. Both databases are on one private PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from authsvc.db import embedded
from tests.authsvc.importer.reference import CURRENT
from tests.live.servers import PROJECT
from tests.settings import ENVIRONMENT

ROWS = (
    """
    INSERT INTO auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at,
        confirmation_token, recovery_token, email_change_token_new, email_change, last_sign_in_at, raw_app_meta_data,
        raw_user_meta_data, created_at, updated_at)
    SELECT '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'authenticated', 'authenticated',
        'person.' || n || '@example.com', '$2a$10$' || left(md5(n::text) || md5('x' || n), 53),
        at, '', '', '', '', at, '{"provider": "email", "providers": ["email"]}',
        jsonb_build_object('name', 'Person Number ' || n, 'city', md5(n::text), 'email_verified', true), at, at
    FROM generate_series(1, %s) n, LATERAL (SELECT now() - n * interval '1 minute' AS at)
    """,
    """
    INSERT INTO auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
    SELECT id::text, id, jsonb_build_object('sub', id::text, 'email', email, 'email_verified', true,
        'phone_verified', false), 'email', created_at, created_at, created_at
    FROM auth.users LIMIT %s
    """,
    """
    INSERT INTO auth.sessions (id, user_id, created_at, updated_at, aal, refreshed_at, user_agent, ip)
    SELECT gen_random_uuid(), id, created_at, created_at, 'aal1', created_at AT TIME ZONE 'UTC',
        'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', '192.0.2.1'
    FROM auth.users LIMIT %s
    """,
    """
    INSERT INTO auth.refresh_tokens (token, user_id, revoked, created_at, updated_at, session_id)
    SELECT left(md5(id::text), 12), user_id::text, false, created_at, created_at, id FROM auth.sessions LIMIT %s
    """,
    """
    INSERT INTO auth.mfa_amr_claims (session_id, created_at, updated_at, authentication_method, id)
    SELECT id, created_at, created_at, 'password', gen_random_uuid() FROM auth.sessions LIMIT %s
    """,
)


def make_source(url: str, users: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CURRENT.encode())
        for statement in ROWS:
            connection.execute(statement.encode().replace(b"%s", str(users).encode()))
        connection.execute("ANALYZE")


def manage(url: str, *arguments: str) -> tuple[float, float, str]:
    """Seconds, peak memory in megabytes and output of a command; raises if it fails."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env={**kept, **ENVIRONMENT, "DATABASE_URL": url},
            stdout=output,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        output.seek(0)
        printed = output.read()
    # `wait4` has already collected the process with its resource usage.
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(printed)
    return seconds, usage.ru_maxrss / 1024, printed


def run(folder: Path, users: int) -> None:
    server = embedded.start(folder / "pg", settings={"max_wal_size": "4GB"})
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE source")
            connection.execute("CREATE DATABASE target")
        source, target = (server.replace("/postgres?", f"/{name}?") for name in ("source", "target"))
        make_source(source, users)
        manage(target, "migrate", "--verbosity", "0")
        for name in ("first pass", "second pass"):
            seconds, megabytes, printed = manage(target, "import_reference", source)
            sys.stdout.write(f"{name}: {users:,} users in {seconds:.0f} s with {megabytes:.0f} MB\n{printed}\n")
            sys.stdout.flush()
    finally:
        embedded.stop(folder / "pg")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the import of a reference database.")
    parser.add_argument("--users", type=int, default=1_000_000, help="default: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="authsvc-import-") as folder:
        run(Path(folder), options.users)


if __name__ == "__main__":
    main()

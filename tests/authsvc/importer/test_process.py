"""The import command as a process: with a namespace, with and without a terminal, and interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from accounts.models import User
from tests import preloaded_python
from tests.authsvc.importer.reference import Reference
from tests.live import servers
from tests.settings import ENVIRONMENT
from tests.timeouts import TIMEOUT_SECONDS, wait_until


def environment(database_url: str, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, **ENVIRONMENT, "DATABASE_URL": database_url, **more}


def manage(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return preloaded_python.run([str(servers.PROJECT / "manage.py"), *arguments], env=env)


@pytest.fixture
def other_database_url() -> Iterator[str]:
    with servers.empty_database() as url:
        yield url


def test_an_import_with_a_namespace_uses_its_tables(reference: Reference, other_database_url: str) -> None:
    user_id = reference.user("ada@example.com")
    reference.identity(user_id, "ada@example.com")
    reference.refresh_token(user_id, "ab2c3def4ghi", session_id=reference.session(user_id))
    env = environment(other_database_url, AUTH_DB_NAMESPACE="svc")

    early = manage("import_reference", reference.url, env=env)
    manage("migrate", "--verbosity", "0", env=env)
    done = manage("import_reference", reference.url, env=env)

    assert early.returncode == 1
    assert early.stderr.strip().endswith("this database lacks migrations: run `manage.py migrate` first")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("done\n")
    with psycopg.connect(other_database_url) as target:
        for table in ("users", "identities", "sessions", "refresh_tokens", "mfa_amr_claims"):
            assert target.execute(f"SELECT count(*) FROM svc_{table}".encode()).fetchone() == (1,), table


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_run_changes_nothing(reference: Reference) -> None:
    reference.user()
    reference.session(reference.user())
    target = servers.server_url().replace("/postgres?", f"/{connection.settings_dict['NAME']}?")
    with psycopg.connect(target) as other:
        # Users can be written; then the import waits for the sessions.
        other.execute("LOCK TABLE sessions IN ROW EXCLUSIVE MODE; LOCK TABLE sessions IN EXCLUSIVE MODE")
        process = subprocess.Popen(
            [sys.executable, "manage.py", "import_reference", reference.url],
            cwd=servers.PROJECT,
            env=environment(target),
            stderr=subprocess.PIPE,
            text=True,
        )
        waiting = "SELECT 1 FROM pg_locks WHERE relation = 'sessions'::regclass AND NOT granted"
        wait_until(lambda: other.execute(waiting).fetchone(), "the import to wait for the lock")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 130
    assert errors.strip().endswith("interrupted: nothing was written; run it again")
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_terminal_shows_progress(reference: Reference) -> None:
    reference.execute("""
        INSERT INTO auth.users (id, email, aud, created_at)
        SELECT gen_random_uuid(), n || '@example.com', 'authenticated', now() FROM generate_series(1, 20000) n
    """)
    reference.execute("ANALYZE auth.users")
    target = servers.server_url().replace("/postgres?", f"/{connection.settings_dict['NAME']}?")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "import_reference", reference.url, "--dry-run"],
        cwd=servers.PROJECT,
        env=environment(target),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:
        # Linux raises it when the last writer has closed the terminal.
        pass
    finally:
        os.close(ours)
    assert process.wait(TIMEOUT_SECONDS) == 0
    assert b" of 20,000 rows of users" in seen
    assert b"\r[" in seen

"""Migrations match the models and hold no long locks, so that running processes keep serving."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.db import models
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader

from authsvc.jobs.shared_tables import RunSQLByOwner
from tests.live.servers import PROJECT


@pytest.mark.parametrize("namespace", ["", "svc"])
def test_no_migration_is_missing(namespace: str) -> None:
    # The namespace is fixed when models are loaded, so each one needs a separate process.
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=PROJECT,
        env={**os.environ, "AUTH_DB_NAMESPACE": namespace, "DJANGO_SETTINGS_MODULE": "authsvc.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "No changes detected"), done.stdout + done.stderr


ALLOWED = (
    "AlterModelOptions", "AlterModelManagers", "CreateModel", "AddIndexConcurrently", "RemoveIndexConcurrently",
    "AddConstraintNotValid", "ValidateConstraint", "RunSQL", "RunSQLByOwner", "SeparateDatabaseAndState",
)  # fmt: skip


def violations(migration: Migration) -> list[str]:
    """Operations of a migration that would block or break processes that are still serving."""
    new = {operation.name_lower for operation in migration.operations if isinstance(operation, operations.CreateModel)}
    problems = []
    for operation in migration.operations:
        kind = type(operation).__name__
        if kind in ALLOWED or getattr(operation, "model_name_lower", None) in new:
            problems += [f"{kind}: {sql}" for sql in statements(operation) if holds_a_lock(sql, migration)]
        elif isinstance(operation, operations.AddField):
            field: Any = operation.field
            if not field.null and not field.has_db_default():
                problems.append(f"{kind} {operation.name}: neither NULL nor a default in the database")
        else:
            problems.append(f"{kind}: holds a lock for long, or older processes do not survive it")
    if not migration.atomic and any(isinstance(operation, operations.AddField) for operation in migration.operations):
        problems.append("AddField without a transaction: it cannot be resumed")
    return problems


def statements(operation: Any) -> list[str]:
    """Hand-written SQL statements of a migration operation."""
    if not isinstance(operation, operations.RunSQL):
        return []
    return [operation.sql] if isinstance(operation.sql, str) else [str(sql) for sql in operation.sql]


def holds_a_lock(sql: str, migration: Migration) -> bool:
    """Return True for index builds that are not concurrent or cannot be repeated after an interruption."""
    if re.search(r"\bCREATE (UNIQUE )?INDEX (?!CONCURRENTLY)", sql) or re.search(r"\bDROP INDEX (?!CONCURRENTLY)", sql):
        return True
    return "CONCURRENTLY" in sql and migration.atomic


# The first migration of each app creates its tables, which no process uses yet.
LATER_MIGRATIONS = sorted(
    (app, name)
    for app in ("accounts", "core", "hooks", "mailer", "oauthproviders", "oauthserver", "tokens")
    for app_label, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    if app == app_label and not name.startswith("0001")
)


@pytest.mark.parametrize(("app", "name"), LATER_MIGRATIONS, ids=str)
def test_later_migrations_hold_no_long_locks(app: str, name: str) -> None:
    migration = MigrationLoader(None, ignore_no_migrations=True).disk_migrations[app, name]
    assert violations(migration) == KNOWN_VIOLATIONS.get((app, name), [])


KNOWN_VIOLATIONS: dict[tuple[str, str], list[str]] = {}
"""Exceptions for migrations older than the rule, each with its violations. Must not grow."""


def migration_with(*parts: operations.base.Operation, atomic: bool = True) -> Migration:
    kind: Any = type("Made", (Migration,), {"operations": list(parts), "atomic": atomic})
    migration: Migration = kind("0009_made", "accounts")
    return migration


@pytest.mark.parametrize(
    "migration",
    [
        pytest.param(
            migration_with(operations.AddIndex("user", models.Index(fields=["aud"], name="x"))), id="an index"
        ),
        pytest.param(migration_with(operations.AlterField("user", "aud", models.TextField())), id="another type"),
        pytest.param(migration_with(operations.RemoveField("user", "aud")), id="a column that older processes read"),
        pytest.param(migration_with(operations.RenameField("user", "aud", "audience")), id="another name"),
        pytest.param(migration_with(operations.DeleteModel("user")), id="a table that older processes read"),
        pytest.param(
            migration_with(operations.AddField("user", "x", models.TextField(default=""))), id="no default for others"
        ),
        pytest.param(migration_with(operations.RunPython(print)), id="rows one by one"),
        pytest.param(migration_with(operations.RunSQL("CREATE INDEX x ON users (aud)")), id="an index by hand"),
        pytest.param(
            migration_with(RunSQLByOwner("CREATE INDEX x ON procrastinate_jobs (id)")), id="an index of the queue"
        ),
        pytest.param(
            migration_with(operations.RunSQL(["CREATE INDEX CONCURRENTLY x ON users (aud)"])), id="in a transaction"
        ),
        pytest.param(
            migration_with(operations.AddConstraint("user", models.UniqueConstraint(fields=["aud"], name="x"))),
            id="a constraint",
        ),
    ],
)
def test_violations_are_detected(migration: Migration) -> None:
    assert violations(migration) != []

"""The migrations say what the models say, and keep nobody waiting who serves meanwhile."""

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
    # The namespace is fixed when models are loaded, hence a process of its own.
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


def offences(migration: Migration) -> list[str]:
    """What in a migration would stand in the way of processes that serve meanwhile."""
    new = {operation.name_lower for operation in migration.operations if isinstance(operation, operations.CreateModel)}
    found = []
    for operation in migration.operations:
        kind = type(operation).__name__
        if kind in ALLOWED or getattr(operation, "model_name_lower", None) in new:
            found += [f"{kind}: {sql}" for sql in statements(operation) if holds_a_lock(sql, migration)]
        elif isinstance(operation, operations.AddField):
            field: Any = operation.field
            if not field.null and not field.has_db_default():
                found.append(f"{kind} {operation.name}: neither NULL nor a default in the database")
        else:
            found.append(f"{kind}: holds a lock for long, or older processes do not survive it")
    if not migration.atomic and any(isinstance(operation, operations.AddField) for operation in migration.operations):
        found.append("AddField without a transaction: it cannot be resumed")
    return found


def statements(operation: Any) -> list[str]:
    """Those that a migration has written by hand."""
    if not isinstance(operation, operations.RunSQL):
        return []
    return [operation.sql] if isinstance(operation.sql, str) else [str(sql) for sql in operation.sql]


def holds_a_lock(sql: str, migration: Migration) -> bool:
    """Indexes that are not built concurrently, or cannot be built again after an interruption."""
    if re.search(r"\bCREATE (UNIQUE )?INDEX (?!CONCURRENTLY)", sql) or re.search(r"\bDROP INDEX (?!CONCURRENTLY)", sql):
        return True
    return "CONCURRENTLY" in sql and migration.atomic


# The first of each app makes its tables; there is nobody whom they could keep waiting.
LATER = sorted(
    (app, name)
    for app in ("accounts", "core", "mailer", "oauthproviders", "tokens")
    for app_label, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    if app == app_label and not name.startswith("0001")
)


@pytest.mark.parametrize(("app", "name"), LATER, ids=str)
def test_a_later_migration_keeps_nobody_waiting(app: str, name: str) -> None:
    migration = MigrationLoader(None, ignore_no_migrations=True).disk_migrations[app, name]
    assert offences(migration) == KNOWN.get((app, name), [])


KNOWN: dict[tuple[str, str], list[str]] = {}
"""Migrations from before the rule, each with what it does against it; never to grow."""


def made(*parts: operations.base.Operation, atomic: bool = True) -> Migration:
    kind: Any = type("Made", (Migration,), {"operations": list(parts), "atomic": atomic})
    migration: Migration = kind("0009_made", "accounts")
    return migration


@pytest.mark.parametrize(
    "migration",
    [
        pytest.param(made(operations.AddIndex("user", models.Index(fields=["aud"], name="x"))), id="an index"),
        pytest.param(made(operations.AlterField("user", "aud", models.TextField())), id="another type"),
        pytest.param(made(operations.RemoveField("user", "aud")), id="a column that older processes read"),
        pytest.param(made(operations.RenameField("user", "aud", "audience")), id="another name"),
        pytest.param(made(operations.DeleteModel("user")), id="a table that older processes read"),
        pytest.param(made(operations.AddField("user", "x", models.TextField(default=""))), id="no default for others"),
        pytest.param(made(operations.RunPython(print)), id="rows one by one"),
        pytest.param(made(operations.RunSQL("CREATE INDEX x ON users (aud)")), id="an index by hand"),
        pytest.param(made(RunSQLByOwner("CREATE INDEX x ON procrastinate_jobs (id)")), id="an index of the queue"),
        pytest.param(made(operations.RunSQL(["CREATE INDEX CONCURRENTLY x ON users (aud)"])), id="in a transaction"),
        pytest.param(
            made(operations.AddConstraint("user", models.UniqueConstraint(fields=["aud"], name="x"))), id="a constraint"
        ),
    ],
)
def test_the_rule_sees(migration: Migration) -> None:
    assert offences(migration) != []

"""The migrations say what the models say, with a namespace and without."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.live import PROJECT


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

"""Runs mypy and pyright in strict mode."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def mypy(folder: Path, files: Sequence[str], *, python: str | Path, settings: str = "") -> set[str]:
    """Return the errors of mypy as `file:line`. `settings` are lines of its configuration."""
    config = folder / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = True\ncache_dir = {folder}/mypy\npython_executable = {python}\n{settings}")
    return _errors([sys.executable, "-m", "mypy", "--config-file", str(config), *files], folder)


def pyright(folder: Path, files: Sequence[str], *, python: str | Path, source: Path | None = None) -> set[str]:
    """Return the errors of pyright as `file:line`. Skip the test if basedpyright is not installed.

    The comment `# pyright: strict` makes the checks of a file strict.
    """
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which("basedpyright", path=beside)
    if program is None:
        pytest.skip("basedpyright is not installed")
    config = {
        "include": list(files),
        "typeCheckingMode": "standard",
        "extraPaths": [str(source)] if source else [],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    return _errors([program, "--project", str(folder), "--pythonpath", str(python)], folder)


def _errors(command: Sequence[str], folder: Path) -> set[str]:
    # Without variables that refer to this checkout.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "MYPY"))}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    result = re.findall(r"(\w+\.py:\d+)(?::\d+)?(?:: | - )error", run.stdout)
    assert bool(result) == bool(run.returncode), run.stdout + run.stderr
    sys.stdout.write(run.stdout)
    return set(result)

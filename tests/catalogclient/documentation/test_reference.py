"""The reference is up to date."""

from __future__ import annotations

import subprocess
import sys

from tests.catalogclient.documentation import blocks


def test_the_reference_is_up_to_date() -> None:
    script = blocks.PACKAGE / "docs" / "make_reference.py"
    run = subprocess.run(
        [sys.executable, str(script), "--check"],
        env={"PYTHONPATH": str(blocks.PACKAGE / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr

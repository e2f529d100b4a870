"""The examples of the documents pass a strict type check, as a user's own code would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.catalogclient.documentation import blocks

BEFORE_HANDOVER = "from catalogclient import RestCatalog\n\ncatalog = RestCatalog('http://127.0.0.1')\n"


def test_the_examples_are_well_typed(tmp_path: Path) -> None:
    (tmp_path / "readme.py").write_text("\n".join(blocks.blocks(blocks.README, "python")))
    handover = BEFORE_HANDOVER + "\n".join(blocks.blocks(blocks.HANDOVER, "python"))
    (tmp_path / "handover.py").write_text(handover)
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = True\nmypy_path = {blocks.PACKAGE / 'src'}\ncache_dir = {tmp_path}\n"
        # What others deliver without types is none of the examples' business.
        "[mypy-pyarrow.*,duckdb.*,pyiceberg.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "readme.py", "handover.py"]
    run = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr

"""The examples of the documents pass strict type checks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.catalogclient import type_checkers
from tests.catalogclient.documentation import blocks

BEFORE_HANDOVER = "from catalogclient import RestCatalog\n\ncatalog = RestCatalog('http://127.0.0.1')\n"
SOURCE = blocks.PACKAGE / "src"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Folder with one program per document."""
    (tmp_path / "readme.py").write_text("\n".join(blocks.blocks(blocks.README, "python")))
    handover = BEFORE_HANDOVER + "\n".join(blocks.blocks(blocks.HANDOVER, "python"))
    (tmp_path / "handover.py").write_text(handover)
    return tmp_path


def test_mypy_reports_no_error_in_the_examples(examples: Path) -> None:
    settings = (
        f"mypy_path = {SOURCE}\n"
        # Other packages without types are ignored.
        "[mypy-pyarrow.*,duckdb.*,pyiceberg.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    )
    files = ["readme.py", "handover.py"]
    assert not type_checkers.mypy(examples, files, python=sys.executable, settings=settings)


def test_pyright_reports_no_error_in_the_examples_and_the_library(examples: Path) -> None:
    # The other document uses libraries without types.
    readme = examples / "readme.py"
    readme.write_text(f"# pyright: strict\n{readme.read_text()}")
    files = ["readme.py", os.path.relpath(SOURCE / "catalogclient", examples)]
    assert not type_checkers.pyright(examples, files, python=sys.executable, source=SOURCE, strict=False)

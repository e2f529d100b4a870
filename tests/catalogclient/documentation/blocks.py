"""The examples of a Markdown document."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "catalogclient"
README = PACKAGE / "README.md"
HANDOVER = PACKAGE / "docs" / "handover.md"

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return [text for marked, text in _FENCED.findall(document.read_text()) if marked == language]


def section(document: Path, title: str, language: str) -> list[str]:
    """Return the fenced blocks below a heading of level 2."""
    parts = re.split(r"^## (.*)$", document.read_text(), flags=re.MULTILINE)
    below = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [text for marked, text in _FENCED.findall(below[title]) if marked == language]

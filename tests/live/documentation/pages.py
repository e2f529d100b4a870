"""Reads the documents and extracts their code blocks and commands."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[3]
DOCS = PROJECT / "docs"
FIRST_PROVIDER = DOCS / "tutorial" / "first-provider.md"

_FENCED = re.compile(r'^ *```(\w*)(?: title="([^"\n]+)")?\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
_LINE_END = re.compile(r"(?<!\\)\n")
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)


def everything() -> list[Path]:
    """Every file that contains commands or settings for readers."""
    return [
        *sorted(DOCS.rglob("*.md")),
        *(
            PROJECT / name
            for name in (
                "README.md",
                "ARCHITECTURE.md",
                "CONTRIBUTING.md",
                "SECURITY.md",
                ".env.example",
                "compose.yaml",
                "compose.ha.yaml",
                "Dockerfile",
                "Makefile",
            )
        ),
        *sorted(file for file in (PROJECT / "deploy").rglob("*") if file.is_file()),
    ]


def name(file: Path) -> str:
    """A short name for test IDs."""
    return str(file.relative_to(PROJECT))


def blocks(file: Path, language: str, *, section: str = "") -> list[str]:
    """The fenced blocks of a language in order; with `section`, only those below that second-level heading."""
    text = file.read_text()
    if section:
        parts = _SECTION.split(text)
        text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
    return [block for marked, title, block in _FENCED.findall(text) if marked == language and not title]


def fenced(file: Path) -> list[tuple[str, str]]:
    """Language and content of every fenced block."""
    return [(language, block) for language, _, block in _FENCED.findall(file.read_text())]


def programs(file: Path) -> dict[str, str]:
    """The blocks that are whole files, by the path in their title."""
    return {title: block for _, title, block in _FENCED.findall(file.read_text()) if title}


def commands(file: Path, *, section: str = "") -> list[str]:
    """The commands of `sh` blocks, which must be runnable unchanged; a continued line is one command."""
    return [line for block in blocks(file, "sh", section=section) for line in _LINE_END.split(block) if line]

"""Checks that settings, commands and files named in documents and deployment files exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core import management

from authsvc.conf import loading, sources
from tests.live.documentation import pages

# Names that end in an underscore stand for many: AUTH_EXTERNAL_<PROVIDER>_URL, AUTH_RATE_LIMIT_*.
_SETTING = re.compile(r"\bAUTH(?:SVC)?_[A-Z0-9_]+")
_COMMAND = re.compile(r"manage\.py ([a-z][a-z_]+)\b(?!\.)")
# At the start of a line; a comment at the end of one is an argument in zsh.
_PROMPT = re.compile(r"^\s*(?:[$%>]|>>>|\w*=[#>]) |\S[ ]{2,}# ", re.MULTILINE)
_ROOT_PROMPT = re.compile(r"^\s*# ", re.MULTILINE)
_FOLDERS = (
    "deploy|authsvc|accounts|tokens|mailer|oauthproviders|oauthserver|hooks|catalogclient|templates|locale|tests|docs"
)
_FILE = re.compile(rf"`((?:{_FOLDERS})/(?!\d)[\w./-]+|\.env\.example)`")


@pytest.fixture(scope="module")
def accepted_variables() -> set[str]:
    """Every accepted environment variable."""
    return {*loading.names_by_variable(), *loading.REMOVED, sources.FILE_VARIABLE, sources.DIRECTORY_VARIABLE}


def _named(pattern: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    for file in pages.everything():
        for match in pattern.findall(file.read_text()):
            yield file, match


def test_documented_settings_exist(accepted_variables: set[str]) -> None:
    assert len(accepted_variables) > 200
    unknown = {
        f"{pages.name(file)}: {name}"
        for file, name in _named(_SETTING)
        if name not in accepted_variables
        and not (name.endswith("_") and any(variable.startswith(name) for variable in accepted_variables))
    }
    assert unknown == set()


def test_documented_commands_exist() -> None:
    commands = set(management.get_commands())
    assert {f"{pages.name(file)}: {name}" for file, name in _named(_COMMAND) if name not in commands} == set()


def test_every_command_is_documented() -> None:
    ours = {name for name, app in management.get_commands().items() if str(app) in ("authsvc", "mailer")}
    listed = (pages.DOCS / "reference" / "commands.md").read_text()
    assert {name for name in ours if f"`{name}`" not in listed} == set()


def test_documented_files_exist() -> None:
    names = {(file, name) for file, name in _named(_FILE) if file.suffix == ".md"}
    assert names
    assert {f"{pages.name(file)}: {name}" for file, name in names if not (pages.PROJECT / name).exists()} == set()


def _code_blocks() -> list[tuple[str, str, str]]:
    """Name of the file, language and content of each block of code."""
    files = [file for file in pages.everything() if file.suffix == ".md"]
    files += [pages.PROJECT / name for name in ("CONTRIBUTING.md", "SECURITY.md")]
    return [(pages.name(file), *block) for file in files for block in pages.fenced(file)]


def test_code_blocks_contain_no_prompts() -> None:
    blocks = _code_blocks()
    assert len([block for _, language, block in blocks if language == "sh"]) > 30
    prompted = {f"{file}: {block}" for file, _, block in blocks if _PROMPT.search(block)}
    prompted |= {
        f"{file}: {block}" for file, language, block in blocks if language == "sh" and _ROOT_PROMPT.search(block)
    }
    assert prompted == set()
    assert {file for file, language, _ in blocks if language in ("console", "")} == set()


def test_pages_with_commands_name_the_source_of_the_settings() -> None:
    unnamed = {
        file
        for file, language, block in _code_blocks()
        if language == "sh"
        and "manage.py" in block
        and not re.search(r"`\.env`| (?:-c|--env-file) [\w./]+", (pages.PROJECT / file).read_text())
    }
    assert unnamed == set()

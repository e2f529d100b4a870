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
_FOLDERS = "deploy|authsvc|accounts|tokens|mailer|oauthproviders|tests|docs"
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

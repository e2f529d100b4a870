"""The generated parts of the documents: as they are checked in, complete, and true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from authsvc.conf import env, sections
from authsvc.management.commands import write_reference
from authsvc.management.reference import errors, probing, settings
from authsvc.management.reference.error_help import ADVICE
from tests.architecture.test_error_catalogue import catalogue
from tests.authsvc.test_config import SETTINGS

NAME = re.compile(r"`([A-Z][A-Z_]+)`")
NAME_WITH_PLACE = re.compile(r"`([A-Z_@]*@[A-Z_@]*)`")


@pytest.fixture(scope="module")
def rows() -> list[settings.Setting]:
    return settings.settings()


@pytest.fixture(scope="module")
def page_of_settings() -> str:
    return settings.page()


@pytest.fixture(scope="module")
def page_of_errors() -> str:
    return errors.page()


def test_what_is_checked_in_is_what_the_source_says() -> None:
    call_command("write_reference", check=True)


def test_what_is_out_of_date_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "folder" / "page.md"
    monkeypatch.setattr(write_reference, "DOCUMENTS", {"page": (page, lambda: b"new")})
    with pytest.raises(CommandError, match=r"out of date: page\. Run make reference"):
        call_command("write_reference", check=True)
    assert not page.exists()
    call_command("write_reference")
    assert page.read_bytes() == b"new"
    assert "written:" in capsys.readouterr().out
    call_command("write_reference", check=True)


# Errors


def test_the_catalogues_of_code_and_document_are_the_same() -> None:
    assert errors.catalogue() == catalogue()


def test_every_error_code_has_its_chapter_with_advice(page_of_errors: str) -> None:
    for code in {error.error_code for error in catalogue()}:
        assert f"## {code}\n\n{ADVICE[code]}\n" in page_of_errors


def test_every_text_is_in_the_catalogue(page_of_errors: str) -> None:
    for error in catalogue():
        if "message" in vars(error):
            assert error.message.replace("<", "&lt;") in page_of_errors, error


def test_advice_names_only_settings_that_there_are(rows: list[settings.Setting]) -> None:
    known = {name for row in rows for name in row.names}
    named = {name for text in ADVICE.values() for name in NAME.findall(text) if name.startswith("AUTH_")}
    assert named - known == set()


# Settings


def test_every_name_of_the_table_of_tests_is_in_the_reference(page_of_settings: str) -> None:
    places = re.sub(r"<[A-Z]+>", "@", page_of_settings)
    for name in {name for name, *_ in SETTINGS}:
        is_there = f"`{name}`" in page_of_settings or any(
            re.fullmatch(pattern.replace("@", "[A-Z_]+"), name) for pattern in NAME_WITH_PLACE.findall(places)
        )
        assert is_there, name


def test_every_setting_fills_a_field() -> None:
    probe = probing.Probe()
    sections.build(probe)
    assert len(probe.reads) > 200
    for name in probe.reads:
        assert probing.fields_of(name), name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AUTH_JWT_EXP", {"default": "`3600`", "is_secret": False, "is_reloadable": True}),
        ("AUTH_JWT_SECRET", {"default": "required", "is_secret": True}),
        ("PORT", {"default": "`8081`", "kind": "port", "is_reloadable": False}),
        ("AUTH_API_MAX_REQUEST_DURATION", {"default": "`10s`"}),
        ("AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", {"is_secret": True, "default": ""}),
        ("AUTH_EXTERNAL_<PROVIDER>_SECRET", {"is_secret": True, "section": "Providers"}),
        ("AUTH_MAILER_NOTIFICATIONS_<KIND>_ENABLED", {"kind": "true or false"}),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_row_says_what_holds(rows: list[settings.Setting], name: str, expected: dict[str, object]) -> None:
    (row,) = (row for row in rows if name in row.names)
    assert {key: getattr(row, key) for key in expected} == expected


def test_a_deprecated_setting_is_marked(rows: list[settings.Setting], page_of_settings: str) -> None:
    (row,) = (row for row in rows if "AUTH_JWT_ADMIN_GROUP_NAME" in row.names)
    assert "not supported" in row.notice
    assert "*deprecated*" in next(line for line in page_of_settings.splitlines() if "JWT_ADMIN_GROUP_NAME" in line)


def test_no_secret_of_this_process_is_in_the_reference(page_of_settings: str) -> None:
    for value in (env.process_environment()["AUTH_JWT_SECRET"], env.process_environment()["DATABASE_URL"]):
        assert value not in page_of_settings

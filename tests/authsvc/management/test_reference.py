"""The generated documents: up to date and complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.conf import loading
from authsvc.management.commands import write_reference
from authsvc.management.reference import errors, settings
from authsvc.management.reference.error_help import REMEDIES
from tests.architecture.test_error_definitions import error_classes
from tests.authsvc.conf.test_fields import SETTINGS

NAME = re.compile(r"`([A-Z][A-Z_]+)`")
NAME_WITH_PLACE = re.compile(r"`([A-Z_@]*@[A-Z_@]*)`")


@pytest.fixture(scope="module")
def page_of_settings() -> str:
    return settings.page()


@pytest.fixture(scope="module")
def page_of_errors() -> str:
    return errors.page()


def test_committed_documents_match_the_source() -> None:
    call_command("write_reference", check=True)


def test_outdated_documents_are_reported_and_rewritten(
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


def test_the_documented_errors_match_the_code() -> None:
    assert errors.find_errors() == error_classes()


def test_every_error_code_has_a_section_with_help(page_of_errors: str) -> None:
    for code in {error.error_code for error in error_classes()}:
        assert f"## {code}\n\n{REMEDIES[code]}\n" in page_of_errors


def test_every_error_message_is_documented(page_of_errors: str) -> None:
    for error in error_classes():
        if "message" in vars(error):
            assert error.message.replace("<", "&lt;") in page_of_errors, error


def test_error_help_names_only_existing_settings() -> None:
    named = {name for text in REMEDIES.values() for name in NAME.findall(text) if name.startswith("AUTH_")}
    assert named - set(loading.names_by_variable()) == set()


# Settings


def test_every_tested_setting_is_in_the_reference(page_of_settings: str) -> None:
    places = re.sub(r"<[A-Z]+>", "@", page_of_settings)
    for name in {name for name, *_ in SETTINGS}:
        is_there = f"`{name}`" in page_of_settings or any(
            re.fullmatch(pattern.replace("@", "[A-Z_]+"), name) for pattern in NAME_WITH_PLACE.findall(places)
        )
        assert is_there, name


def line(page: str, name: str) -> str:
    (row,) = (line for line in page.splitlines() if line.startswith("|") and f"`{name}`" in line.split(" | ")[0])
    return row


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("AUTH_JWT_EXP", "| whole number of seconds | `3600` |"),
        ("AUTH_JWT_SECRET", "| text | required |"),
        ("PORT", "| port | `8081` | Port to listen on. *restart* |"),
        ("AUTH_API_MAX_REQUEST_DURATION", "| `10s` |"),
        ("AUTH_MAILER_OTP_LENGTH", "| whole number (digits), 6 to 10 | `6` |"),
        ("AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES", "| `0.0000099` |"),
        ("AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", "*secret* |"),
        ("AUTH_EXTERNAL_<PROVIDER>_SECRET", "Client secret. *secret* |"),
        ("AUTH_MAILER_NOTIFICATIONS_<TYPE>_ENABLED", "TYPE: `PASSWORD_CHANGED`"),
        ("OTEL_<NAME>", "*secret* |"),
        ("AUTH_JWT_ADMIN_GROUP_NAME", "*deprecated* |"),
    ],
)
def test_a_row_states_type_default_and_marks(page_of_settings: str, name: str, expected: str) -> None:
    assert expected in line(page_of_settings, name)


def test_a_reloadable_setting_has_no_mark(page_of_settings: str) -> None:
    assert "*" not in line(page_of_settings, "AUTH_JWT_EXP")


def test_no_secret_of_this_process_is_in_the_generated_files(page_of_settings: str) -> None:
    for name in ("AUTH_JWT_SECRET", "DATABASE_URL"):
        assert conf.process_environment()[name] not in page_of_settings + settings.example()


@pytest.mark.parametrize("bucket", Bucket)
def test_rows_of_rate_limits_state_burst_and_period(page_of_settings: str, bucket: Bucket) -> None:
    [name] = {name for name, _, field, _ in SETTINGS if field == f"limits.{bucket.field}"}
    row = line(page_of_settings, name)
    rate = getattr(conf.current().limits, bucket.field)
    period = {60: "per minute", 300: "per five minutes", 3600: "per hour"}[round(rate / bucket.parameters.per_second)]
    burst = "the same number" if bucket == Bucket.ANONYMOUS_SIGN_INS else f"{bucket.parameters.burst:.0f}"
    assert f"{period}, after a burst of {burst}" in row
    assert f"A bucket starts full with {throttling.BURST} tokens" in page_of_settings

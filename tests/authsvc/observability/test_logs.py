"""Log lines: format, destinations, and masked secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.config import dictConfig
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from authsvc import conf
from authsvc.conf import Notice, log_notices
from authsvc.observability import logs

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
REFRESH = "A" + "b9_-" * 12 + "xyz"
SETTING = "AUTH_MAILER_NOTIFICATIONS_MFA_FACTOR_UNENROLLED_ENABLED"
LINK = "0123456789abcdef" * 3 + "01234567"


@pytest.fixture(autouse=True)
def _log_is_put_back() -> Iterator[None]:
    touched = [
        logging.getLogger(name)
        for name in (None, "django", "django.server", "django.db.backends", "urllib3", "opentelemetry")
    ]
    before = [(logger, logger.level, logger.propagate, logger.handlers[:]) for logger in touched]
    yield
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logs.LogFile):
            handler.close()
    for logger, level, propagate, handlers in before:
        logger.level, logger.propagate, logger.handlers = level, propagate, handlers
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]  # the levels above bypass setLevel


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines on standard error."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def line(**record: Any) -> dict[str, Any]:
    """One formatted record."""
    formatted = logs.JsonFormatter().format(logging.makeLogRecord({"levelno": logging.INFO, "msg": "m"} | record))
    assert "\n" not in formatted
    entry = json.loads(formatted)
    assert isinstance(entry, dict)
    return entry


def test_a_line_is_one_json_object_with_its_extra_fields(capsys: pytest.CaptureFixture[str]) -> None:
    dictConfig(logs.build_config(conf.Logging()))
    logging.getLogger("authsvc.api").info("request %s", "completed", extra={"component": "api", "status": 200})
    (entry,) = lines(capsys)
    at = datetime.fromisoformat(entry.pop("time"))
    assert entry == {"component": "api", "level": "info", "msg": "request completed", "status": 200}
    assert at.tzinfo == UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 10


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *((60, "panic"), (50, "fatal"), (40, "error"), (35, "warning"), (30, "warning")),
        *((20, "info"), (10, "debug"), (5, "trace"), (1, "trace")),
    ],
)
def test_levels_have_the_documented_names(number: int, name: str) -> None:
    assert line(levelno=number)["level"] == name


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("trace", ["trace", "debug", "info", "warning", "error", "fatal"]),
        ("debug", ["debug", "info", "warning", "error", "fatal"]),
        ("info", ["info", "warning", "error", "fatal"]),
        ("warning", ["warning", "error", "fatal"]),
        ("error", ["error", "fatal"]),
        ("fatal", ["fatal"]),
        ("panic", []),
    ],
)
def test_lines_below_the_level_are_not_written(
    capsys: pytest.CaptureFixture[str], level: str, expected: list[str]
) -> None:
    dictConfig(logs.build_config(conf.Logging(level=level)))
    for number in (5, 10, 20, 30, 40, 50):
        logging.getLogger("authsvc.test").log(number, "m")
    assert [entry["level"] for entry in lines(capsys)] == expected


@pytest.mark.parametrize("level", ["trace", "debug", "info", "error"])
@pytest.mark.parametrize("name", ["django.db.backends", "django.db.backends.schema", "urllib3.connectionpool"])
def test_statements_with_parameters_are_never_written(
    capsys: pytest.CaptureFixture[str], level: str, name: str
) -> None:
    dictConfig(logs.build_config(conf.Logging(level=level)))
    logging.getLogger(name).debug("(0.001) SELECT %s; args=('x',)", "1")
    assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)
    assert capsys.readouterr().err == ""


def test_lines_of_django_have_the_same_format(capsys: pytest.CaptureFixture[str]) -> None:
    dictConfig(logs.build_config(conf.Logging()))
    logging.getLogger("django.request").error("Internal Server Error: %s", "/y")  # the access log has this entry
    logging.getLogger("django.security").error(
        "Internal Server Error: %s", "/x", extra={"request": object(), "status_code": 500}
    )
    logging.getLogger("django.server").info('"GET /verify?token=%s HTTP/1.1" 200', "hunter2")
    first, second = lines(capsys)
    assert (first["msg"], first["status_code"], "request" in first) == ("Internal Server Error: /x", 500, False)
    assert second["msg"] == '"GET /verify?token=*** HTTP/1.1" 200'


def test_an_exception_becomes_error_and_stack() -> None:
    try:
        raise ValueError(f"bad {JWT}")
    except ValueError:
        entry = line(levelno=logging.ERROR, exc_info=sys.exc_info())
    assert entry["error"] == "ValueError: bad ***"
    assert entry["stack"].startswith("Traceback (most recent call last):\n")
    assert "eyJ" not in entry["stack"]


def test_a_stated_error_is_kept_beside_the_stack() -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        entry = line(exc_info=sys.exc_info(), error="stated")
    assert entry["error"] == "stated"
    assert "ValueError: inner" in entry["stack"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"token {JWT} refused", "token *** refused"),
        ("cut short eyJhbGciOiJIUzI1NiJ9", "cut short ***"),
        (f"refresh {REFRESH}.", "refresh ***."),
        (f"{REFRESH}{'x' * 20}", f"{REFRESH}{'x' * 20}"),
        (f"link {LINK} and pkce_{LINK}", "link *** and ***"),
        ("/verify?token=abc&type=signup", "/verify?token=***&type=signup"),
        ("?token_hash=abc#x", "?token_hash=***#x"),
        ("?access_token=a&refresh_token=b&expires_in=3600", "?access_token=***&refresh_token=***&expires_in=3600"),
        ("/callback?code=abc&state=x", "/callback?code=***&state=x"),
        ("?error_code=otp_expired", "?error_code=otp_expired"),
        ("?redirect_to=https%3A%2F%2Fx%3Fcode%3Dabc", "?redirect_to=https%3A%2F%2Fx%3Fcode%3D***"),
        ("password=hunter2 Password=Hunter2", "password=*** Password=***"),
        ("?code_verifier=abc&client_secret=def", "?code_verifier=***&client_secret=***"),
        ('{"password": "hunter 2", "email": "a"}', '{"password": ***, "email": "a"}'),
        ("{'refresh_token': 'hunter2'}", "{'refresh_token': ***}"),
        ("postgres://me:hunter2@db/x", "postgres://me:***@db/x"),
        ("invalid token: it has expired", "invalid token: it has expired"),
        (SETTING, SETTING),
        ("1f8f2b6e-6c64-4b8e-9d0a-2f6c5d3b7a11", "1f8f2b6e-6c64-4b8e-9d0a-2f6c5d3b7a11"),
    ],
)
def test_texts_that_resemble_secrets_are_masked(text: str, expected: str) -> None:
    assert logs.redact(text) == expected
    entry = line(msg=text, path=text, error=text, payload={"in": [text]})
    assert (entry["msg"], entry["path"], entry["error"], entry["payload"]) == (expected,) * 3 + ({"in": [expected]},)


@pytest.mark.parametrize("length", [51, 62])
def test_refresh_tokens_of_every_length_are_masked(length: int) -> None:
    assert logs.redact(("Ab9" * 30)[:length]) == "***"


@pytest.mark.parametrize("name", ["password", "token", "refresh_token", "Authorization"])
def test_members_named_like_a_secret_are_masked(name: str) -> None:
    assert line(**{name: "hunter2"})[name] == "***"
    assert line(payload={name: ["hunter2"]})["payload"] == {name: "***"}


def test_values_of_every_type_are_serialized() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    entry = line(none=None, truth=True, number=1.5, at=at, id=UUID(int=0), path=Path("/x"), many=(1, {2}))
    assert (entry["none"], entry["truth"], entry["number"]) == (None, True, 1.5)
    assert (entry["at"], entry["id"]) == ("2026-01-01T00:00:00+00:00", "00000000-0000-0000-0000-000000000000")
    assert (entry["path"], entry["many"]) == ("/x", [1, [2]])


def test_unserializable_values_do_not_lose_the_line() -> None:
    entry = line(big=2**70, torn="\ud800", key=conf.Secret("hunter2"))
    assert (entry["big"], entry["torn"], entry["key"]) == (2**70, "\ud800", "Secret(***)")
    assert entry["time"].endswith("Z")


def test_extra_fields_do_not_replace_fixed_ones() -> None:
    entry = line(level="nonsense", time="never")
    assert entry["level"] == "info"
    assert entry["time"] != "never"


def test_a_log_call_with_wrong_arguments_is_still_written() -> None:
    assert line(msg="%s and %s", args=("hunter2",))["msg"] == "%s and %s"


def test_the_file_is_readable_by_its_group_and_appended(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "auth.log"
    before = os.umask(0)
    try:
        for message in ("one", "two"):
            dictConfig(logs.build_config(conf.Logging(file=str(file))))
            logging.getLogger("authsvc").info(message)
            logging.getLogger().handlers[0].close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o660
    assert [json.loads(text)["msg"] for text in file.read_text().splitlines()] == ["one", "two"]
    assert capsys.readouterr().err == ""


def test_a_moved_file_is_recreated(tmp_path: Path) -> None:
    handler = logs.build_handler(file=str(tmp_path / "auth.log"))
    (tmp_path / "auth.log").rename(tmp_path / "auth.log.1")
    handler.handle(logging.makeLogRecord({"levelno": logging.INFO, "msg": "after"}))
    handler.close()
    assert json.loads((tmp_path / "auth.log").read_text())["msg"] == "after"


def test_an_unusable_file_is_reported_on_standard_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dictConfig(logs.build_config(conf.Logging(file=str(tmp_path / "missing" / "auth.log"))))
    logging.getLogger("authsvc").info("goes on")
    first, second = lines(capsys)
    assert (first["level"], first["msg"]) == ("error", "unable to configure logging")
    assert "No such file or directory" in first["error"]
    assert second["msg"] == "goes on"


def test_warnings_name_their_setting(capsys: pytest.CaptureFixture[str]) -> None:
    dictConfig(logs.build_config(conf.Logging()))
    log_notices(
        [
            Notice(level="info", message="one"),
            Notice(level="warning", message="two", fields={"setting": "AUTH_API_ENDPOINT"}),
        ]
    )
    first, second = lines(capsys)
    assert (first["level"], first["msg"], first["component"]) == ("info", "one", "api")
    assert (second["level"], second["msg"], second["setting"]) == ("warning", "two", "AUTH_API_ENDPOINT")


def test_a_reopened_file_receives_later_lines(tmp_path: Path) -> None:
    file = tmp_path / "auth.log"
    dictConfig(logs.build_config(conf.Logging(file=str(file))))
    logging.getLogger("authsvc").info("one")
    # A rotation that copies and truncates the same file.
    copy = tmp_path / "auth.log.1"
    copy.write_bytes(file.read_bytes())
    os.truncate(file, 0)
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, logs.LogFile)
    opened = handler.stream
    logs.reopen()
    logging.getLogger("authsvc").info("two")
    assert handler.stream is not opened
    handler.close()
    assert [json.loads(text)["msg"] for text in (copy.read_text() + file.read_text()).splitlines()] == ["one", "two"]


def test_a_full_disk_loses_only_the_lines_of_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "auth.log"
    dictConfig(logs.build_config(conf.Logging(file=str(file))))
    log = logging.getLogger("authsvc")
    log.info("before")
    size = file.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # Space for a part of the next line, then for none.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        log.info("torn")
        log.info("lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    log.info("after")
    logging.getLogger().handlers[0].close()
    first, torn, last = file.read_text().splitlines()
    assert (json.loads(first)["msg"], len(torn), json.loads(last)["msg"]) == ("before", 10, "after")
    assert [entry["msg"] for entry in lines(capsys)] == ["torn", "lost"]


def test_a_terminal_gets_readable_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        dictConfig(logs.build_config(conf.Logging()))
        fields = {"status": 200, "path": "/x y", "agent": "\x1b[31m\nforged", "password": "hunter2"}
        logging.getLogger("authsvc.api").info("a line", extra=fields)
    written = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert written.count("\n") == 1
    time, words = written.split(" ", 1)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", time)
    expected_text = r'agent="\u001b[31m\nforged" password=*** path="/x y" status=200'
    assert words == f"info    a line {expected_text}\r\n"


def test_a_request_is_one_short_line_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        dictConfig(logs.build_config(conf.Logging(level="info")))
        logger = logging.getLogger("authsvc.api")
        fields = {
            "method": "POST",
            "path": "/token\x1b[2J",
            "status": 200,
            "duration": 86_400_000,
            "grant_type": "password",
        }
        event = {"actor_username": "ada@example.com", "action": "login"}
        logger.info("audit_event", extra={"auth_audit_event": "{}"})
        logger.info(logs.REQUEST_COMPLETED, extra={**fields, "auth_event": event, "remote_addr": "203.0.113.7"})
        refused = {**fields, "path": "/token", "status": 400, "error_code": "invalid_credentials"}
        logger.warning(logs.REQUEST_COMPLETED, extra=refused)
        stream.flush()
    content = b""
    while content.count(b"\n") < 2:  # a terminal delivers lines as they arrive
        content += os.read(terminal, 10_000)
    first, second = content.decode().splitlines()
    os.close(terminal)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d POST /token\N{REPLACEMENT CHARACTER}\[2J 200 86 ms grant_type=password user=ada@…", first
    )
    assert second.endswith(" POST /token 400 86 ms error_code=invalid_credentials grant_type=password")


def test_a_broken_pipe_does_not_fail_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stderr = os.fdopen(writer, "w", buffering=1)
    monkeypatch.setattr("sys.stderr", stderr)
    dictConfig(logs.build_config(conf.Logging()))
    logging.getLogger("authsvc").info("nobody reads this")
    with pytest.raises(BrokenPipeError):
        stderr.close()


@pytest.mark.parametrize(
    ("is_told", "level", "expected"), [(True, "info", ["otel"]), (False, "debug", []), (False, "trace", [])]
)
def test_telemetry_libraries_log_at_the_configured_level(
    capsys: pytest.CaptureFixture[str], is_told: bool, level: str, expected: list[str]
) -> None:
    dictConfig(logs.build_config(conf.Logging(level=level), telemetry_debug=is_told))
    logging.getLogger("opentelemetry.sdk.trace").debug("a batch went out")
    assert [entry["component"] for entry in lines(capsys)] == expected

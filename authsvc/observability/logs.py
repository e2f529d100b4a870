"""The log: one JSON object per line, or text on a terminal, with secrets masked."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Any, TextIO

import orjson

from authsvc import conf

_LEVELS = {"panic": 60, "fatal": 50, "error": 40, "warning": 30, "info": 20, "debug": 10, "trace": 5}
_FILE_MODE = 0o660

_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Django adds the request object to its records; its text holds the query.
_OMITTED_FIELDS = _RECORD_FIELDS | {"request"}
_SECRET_FIELDS = frozenset(
    {"password", "token", "access_token", "refresh_token", "provider_token", "id_token", "secret", "authorization"}
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MASK = "***"

REQUEST_COMPLETED = "request completed"
"""The message of the access log."""
_PART_OF_REQUESTS = frozenset({"audit_event", "Login"})
"""Lines for programs; at a terminal the line of the request says the same."""

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    # JSON Web Tokens, complete or truncated.
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"), _MASK),
    # Refresh tokens, which have lower case unlike names of variables, and the tokens of emailed links.
    (re.compile(r"(?<![A-Za-z0-9_-])A(?=[A-Z0-9_-]*[a-z])[A-Za-z0-9_-]{50,61}(?![A-Za-z0-9_-])"), _MASK),
    (re.compile(r"(?<![A-Za-z0-9])(?:pkce_)?[0-9a-f]{56}(?![A-Za-z0-9])"), _MASK),
    # Query and form values, also within a percent-encoded value.
    (
        re.compile(
            r"((?:token|token_hash|password|secret|verifier|api_?key|(?:\b|%[0-9A-F]{2})(?:code|otp|nonce))(?:=|%3D))[^\s&\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1{_MASK}",
    ),
    # Members of a JSON object or of the text of a mapping.
    (
        re.compile(r"((?:token|token_hash|password|secret)[\"']\s*:\s*)(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE),
        rf"\1{_MASK}",
    ),
    # The password of a URL.
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), rf"\1{_MASK}@"),
)
# A text below this length and without any of these marks matches no pattern; this is so for most logged values.
_MIN_TOKEN_LENGTH = 51
_SECRET_MARKS = re.compile(r"[=%@\"']|eyJ")


def build_config(logging: conf.Logging, *, telemetry_debug: bool = False) -> dict[str, Any]:
    """Django's LOGGING for `logging.config.dictConfig`: all records go to LOG_FILE or standard error.

    With `telemetry_debug` the telemetry libraries log their diagnostics at any level.
    """
    level = _LEVELS[logging.level]
    # Below INFO these loggers write statements with their parameters, and URLs with their queries.
    at_least_info = {"level": max(level, _LEVELS["info"])}
    # Without Django's own handlers, so that its records reach the root logger.
    propagated = {"handlers": [], "propagate": True, "level": "NOTSET"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"log": {"()": "authsvc.observability.logs.build_handler", "file": logging.file}},
        "root": {"handlers": ["log"], "level": level},
        "loggers": {
            "django": propagated,
            "django.server": propagated,
            "django.db.backends": at_least_info,
            "urllib3": at_least_info,
            # The access log holds the same and more.
            "django.request": {"level": "CRITICAL"},
            # Every process would log every task that it loads.
            "procrastinate": {"level": max(level, _LEVELS["warning"])},
            "opentelemetry": {"level": _LEVELS["debug"] if telemetry_debug else max(level, _LEVELS["warning"])},
            # Serving processes summarise these records: `otlp.limit_warnings`.
            "opentelemetry.exporter": {"level": "NOTSET" if telemetry_debug else max(level, _LEVELS["error"])},
        },
    }


def build_handler(*, file: str) -> logging.Handler:
    """The handler for `file`, or for standard error when that is empty or, after one error line, cannot be opened."""
    if not file:
        return StandardError()
    try:
        return LogFile(file)
    except OSError as error:
        fallback = StandardError()
        record = {"levelno": logging.ERROR, "msg": "unable to configure logging", "error": f"{file}: {error.strerror}"}
        fallback.handle(logging.makeLogRecord(record))
        return fallback


def reopen() -> None:
    """Make the next line open the log file again. Can be called in a signal handler."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.is_stale = True


class StandardError(logging.StreamHandler[TextIO]):
    """Standard error: text on a terminal, JSON otherwise."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        if sys.stderr.isatty():
            self.setFormatter(TextFormatter())
            self.addFilter(lambda record: record.msg not in _PART_OF_REQUESTS)
        else:
            self.setFormatter(JsonFormatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's name)
        """Ignore the error, which must not fail a request and has no other place to be logged."""


class LogFile(WatchedFileHandler):
    """A log file with mode 0660, opened again after it was moved away.

    Lines that cannot be written, for example on a full disk, go to standard error.
    """

    def __init__(self, file: str) -> None:
        super().__init__(file, encoding="utf-8")
        self.setFormatter(JsonFormatter())
        self.is_stale = False
        self._fallback = StandardError()
        self._has_partial_line = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.is_stale and self.stream is not None:
                self.stream.close()
                self.stream = None
            self.is_stale = False
            self.reopenIfNeeded()
            if self.stream is None:
                self.stream = self._open()
                self._statstream()
            self._write(self.format(record), self.stream.fileno())
        except Exception:  # noqa: BLE001  (a log line must not fail a request)
            self._fallback.handle(record)

    def _write(self, line: str, descriptor: int) -> None:
        octets = f"{line}\n".encode(errors="backslashreplace")
        # The rest of a partial line is never written.
        octets = b"\n" + octets if self._has_partial_line else octets
        written = os.write(descriptor, octets)
        self._has_partial_line = written < len(octets)
        if self._has_partial_line:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, _FILE_MODE)
        )


class _FieldFormatter(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """`level`, `msg`, `time`, the `extra=` fields, an exception's `error` and `stack`, without secrets."""
        fields = {name: _clean(value, name) for name, value in vars(record).items() if name not in _OMITTED_FIELDS}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields.setdefault("error", redact(f"{type(error).__name__}: {error}"))
            fields["stack"] = redact(self.formatException(record.exc_info))
        elif record.stack_info:
            fields["stack"] = redact(record.stack_info)
        fields["level"] = _level_name(record.levelno)
        fields["msg"] = redact(_message(record))
        fields["time"] = datetime.fromtimestamp(record.created, UTC)
        if "statement_args" in fields:
            # `args` is a member of every record.
            fields["args"] = fields.pop("statement_args")
        if (record.name or "").startswith("opentelemetry"):
            fields.setdefault("component", "otel")
        return fields


class TextFormatter(_FieldFormatter):
    """A record as text: time, level, message and fields on one line, a stack on the lines after it.

    A request is shorter: `10:04:47 POST /token 200 86 ms user=ada@…`.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        time, level, message, stack = (fields.pop(name, "") for name in ("time", "level", "msg", "stack"))
        if message == REQUEST_COMPLETED:
            line, fields = _describe_request(fields), _request_details(fields)
        else:
            line = f"{level:<7} {message}"
        rest = "".join(f" {name}={_format_value(value)}" for name, value in sorted(fields.items()))
        lines = [f"{time.astimezone():%H:%M:%S} {line}{rest}", *stack.splitlines()]
        # Values of clients must not control the terminal or add lines.
        return "\n".join(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text) for text in lines)


class JsonFormatter(_FieldFormatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        try:
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
        except TypeError:
            # orjson refuses lone surrogates and numbers beyond 64 bits.
            fields["time"] = f"{fields['time']:%Y-%m-%dT%H:%M:%S.%fZ}"
            return json.dumps(fields, sort_keys=True, default=str)


def redact(text: str) -> str:
    """`text` with anything masked that looks like a token, a code or a password."""
    if len(text) < _MIN_TOKEN_LENGTH and not _SECRET_MARKS.search(text):
        return text
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _clean(value: object, name: str = "") -> object:
    """`value` in types of JSON, without secrets."""
    if value is not None and name.lower() in _SECRET_FIELDS:
        return _MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _clean(member, str(key)) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(member) for member in value]
    return redact(value.isoformat() if isinstance(value, datetime) else str(value))


def _describe_request(fields: Mapping[str, Any]) -> str:
    milliseconds = fields["duration"] / 1_000_000
    return f"{fields['method']} {fields['path']} {fields['status']} {milliseconds:.0f} ms"


def _request_details(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that a person at a terminal needs; an email address without its domain."""
    details = {name: fields[name] for name in ("grant_type", "error_code", "error") if fields.get(name)}
    name = fields.get("auth_event", {}).get("actor_username") or fields.get("user_id")
    if name:
        local_part, separator, _ = name.partition("@")
        details["user"] = f"{local_part}@…" if separator else name
    return details


def _format_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or _CONTROL.search(text) else text


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  (logging would print the arguments of a faulty call to standard error)
        return str(record.msg)


def _level_name(number: int) -> str:
    return next((name for name, minimum in _LEVELS.items() if number >= minimum), "trace")

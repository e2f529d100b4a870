"""The log: one JSON object per line, or words on a terminal, with a net under it that keeps secrets out."""

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

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Django adds the request object to its own records: of no use as text, and its text holds the query.
_LEFT_OUT = _OWN_FIELDS | {"request"}
_UNSAFE_NAMES = frozenset(
    {"password", "token", "access_token", "refresh_token", "provider_token", "id_token", "secret", "authorization"}
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MASK = "***"
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    # JSON Web Tokens, whole or cut short.
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"), _MASK),
    # Refresh tokens (which names of variables are not: those have no lower case), and the tokens of mailed links.
    (re.compile(r"(?<![A-Za-z0-9_-])A(?=[A-Z0-9_-]*[a-z])[A-Za-z0-9_-]{50,61}(?![A-Za-z0-9_-])"), _MASK),
    (re.compile(r"(?<![A-Za-z0-9])(?:pkce_)?[0-9a-f]{56}(?![A-Za-z0-9])"), _MASK),
    # Query and form values, also inside a value that is itself percent-encoded.
    (
        re.compile(
            r"((?:token|token_hash|password|secret|verifier|api_?key|(?:\b|%[0-9A-F]{2})(?:code|otp|nonce))(?:=|%3D))[^\s&\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1{_MASK}",
    ),
    # Members of a JSON object or of a printed mapping.
    (
        re.compile(r"((?:token|token_hash|password|secret)[\"']\s*:\s*)(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE),
        rf"\1{_MASK}",
    ),
    # The password of a URL.
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), rf"\1{_MASK}@"),
)
# What a text needs at least for one of the patterns to match; most values of an access line have none of it.
_SHORTEST_BARE_TOKEN = 51
_MARKS = re.compile(r"[=%@\"']|eyJ")


def config(logging: conf.Logging, *, is_telemetry_told: bool = False) -> dict[str, Any]:
    """Django's LOGGING for `logging.config.dictConfig`: everything to LOG_FILE or standard error.

    With `is_telemetry_told` the telemetry libraries log their diagnostics, whatever the level.
    """
    level = _LEVELS[logging.level]
    # Below INFO these write statements with their parameters, and addresses with their queries.
    discreet = {"level": max(level, _LEVELS["info"])}
    # Django's own handlers are taken off, so that its records reach the root like all others.
    plain = {"handlers": [], "propagate": True, "level": "NOTSET"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"log": {"()": "authsvc.observability.logs.handler", "file": logging.file}},
        "root": {"handlers": ["log"], "level": level},
        "loggers": {
            "django": plain,
            "django.server": plain,
            "django.db.backends": discreet,
            "urllib3": discreet,
            # Our access line says the same and more.
            "django.request": {"level": "CRITICAL"},
            # It tells of every task it loads, in every process.
            "procrastinate": {"level": max(level, _LEVELS["warning"])},
            # What these have to say of their own doings is asked for by a setting of its own.
            "opentelemetry": {"level": _LEVELS["debug"] if is_telemetry_told else max(level, _LEVELS["warning"])},
            # A collector that is away would have several lines for every try, beside the one for what was given up.
            "opentelemetry.exporter": {"level": "NOTSET" if is_telemetry_told else max(level, _LEVELS["error"])},
        },
    }


def handler(*, file: str) -> logging.Handler:
    """Where the lines go: `file`, or standard error when that is empty or, after one error line, cannot be opened."""
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
    """Let the next line open the log file anew. Can be called in a signal handler."""
    for each in logging.getLogger().handlers:
        if isinstance(each, LogFile):
            each.is_stale = True


class StandardError(logging.StreamHandler[TextIO]):
    """Standard error: words for whoever sits before a terminal, JSON for everything else."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(WordFormatter() if sys.stderr.isatty() else JsonFormatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (the library's name)
        """Nothing: there is nowhere left to say it, and no request is to fail for its log line."""


class LogFile(WatchedFileHandler):
    """A log file that its group may read and write, opened again when it was moved away.

    What it cannot take, a full disk's for one, goes to standard error instead, line by line until it can again.
    """

    def __init__(self, file: str) -> None:
        super().__init__(file, encoding="utf-8")
        self.setFormatter(JsonFormatter())
        self.is_stale = False
        self._instead = StandardError()
        self._is_torn = False

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
        except Exception:  # noqa: BLE001  (no request is to fail for its log line, whatever is the matter)
            self._instead.handle(record)

    def _write(self, line: str, descriptor: int) -> None:
        octets = f"{line}\n".encode(errors="backslashreplace")
        # The rest of a line for which there was no room is never written.
        octets = b"\n" + octets if self._is_torn else octets
        written = os.write(descriptor, octets)
        self._is_torn = written < len(octets)
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, _FILE_MODE)
        )


class _Fields(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """`level`, `msg`, `time`, the `extra=` fields, an exception's `error` and `stack`, without secrets."""
        fields = {name: _clean(value, name) for name, value in vars(record).items() if name not in _LEFT_OUT}
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
            # A record has a member `args` of its own.
            fields["args"] = fields.pop("statement_args")
        if (record.name or "").startswith("opentelemetry"):
            fields.setdefault("component", "otel")
        return fields


class WordFormatter(_Fields):
    """A record as words on a line: time, level, message, fields; an exception's stack on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        time, level, message, stack = (fields.pop(name, "") for name in ("time", "level", "msg", "stack"))
        rest = " ".join(f"{name}={_word(value)}" for name, value in sorted(fields.items()))
        line = f"{time.astimezone():%H:%M:%S} {level:<7} {message}"
        said = [f"{line}  {rest}" if rest else line, *stack.splitlines()]
        # An escape in what a client has sent must not give the terminal an order, nor a line break make a line.
        return "\n".join(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", each) for each in said)


class JsonFormatter(_Fields):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        try:
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
        except TypeError:
            # Lone surrogates and numbers beyond 64 bits; the log must not lose the line for them.
            fields["time"] = f"{fields['time']:%Y-%m-%dT%H:%M:%S.%fZ}"
            return json.dumps(fields, sort_keys=True, default=str)


def redact(text: str) -> str:
    """`text` with everything masked that looks like a token, a code or a password."""
    if len(text) < _SHORTEST_BARE_TOKEN and not _MARKS.search(text):
        return text
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _clean(value: object, name: str = "") -> object:
    """`value` as JSON can hold it, without secrets."""
    if value is not None and name.lower() in _UNSAFE_NAMES:
        return _MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _clean(member, str(key)) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(member) for member in value]
    return redact(value.isoformat() if isinstance(value, datetime) else str(value))


def _word(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or _CONTROL.search(text) else text


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  (a wrong argument of a log call must not print its arguments elsewhere)
        return str(record.msg)


def _level_name(number: int) -> str:
    return next((name for name, least in _LEVELS.items() if number >= least), "trace")

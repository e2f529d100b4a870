"""The log: one JSON object per line, with a net under it that keeps secrets out."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import Any

import orjson

from authsvc.core.config import schema

_LEVELS = {"panic": 60, "fatal": 50, "error": 40, "warning": 30, "info": 20, "debug": 10, "trace": 5}
_FILE_MODE = 0o660

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Django adds the request object to its own records: of no use as text, and its text holds the query.
_LEFT_OUT = _OWN_FIELDS | {"request"}
_UNSAFE_NAMES = frozenset(
    {"password", "token", "access_token", "refresh_token", "provider_token", "id_token", "secret", "authorization"}
)

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


def config(logging: schema.Logging) -> dict[str, Any]:
    """Django's LOGGING for `logging.config.dictConfig`: everything to LOG_FILE or standard error."""
    level = _LEVELS[logging.level]
    # Below INFO these write statements with their parameters, and addresses with their queries.
    discreet = {"level": max(level, _LEVELS["info"])}
    # Django's own handlers are taken off, so that its records reach the root like all others.
    plain = {"handlers": [], "propagate": True, "level": "NOTSET"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "authsvc.core.logs.JsonFormatter"}},
        "handlers": {"log": {"()": "authsvc.core.logs.handler", "file": logging.file, "formatter": "json"}},
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
        },
    }


def handler(*, file: str) -> logging.Handler:
    """Where the lines go: `file`, or standard error when that is empty or, after one error line, cannot be opened."""
    if not file:
        return logging.StreamHandler(sys.stderr)
    try:
        return LogFile(file)
    except OSError as error:
        fallback = logging.StreamHandler(sys.stderr)
        fallback.setFormatter(JsonFormatter())
        record = {"levelno": logging.ERROR, "msg": "unable to configure logging", "error": f"{file}: {error.strerror}"}
        fallback.handle(logging.makeLogRecord(record))
        return fallback


class LogFile(WatchedFileHandler):
    """A log file that its group may read and write, opened again when it was moved away."""

    def __init__(self, file: str) -> None:
        super().__init__(file, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, _FILE_MODE)
        )


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: `level`, `msg`, `time`, the `extra=` fields, an exception's `error` and `stack`."""

    def format(self, record: logging.LogRecord) -> str:
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


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  (a wrong argument of a log call must not print its arguments elsewhere)
        return str(record.msg)


def _level_name(number: int) -> str:
    return next((name for name, least in _LEVELS.items() if number >= least), "trace")

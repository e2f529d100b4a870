"""Variables by the names the documentation gives them: prefix, aliases, typed reading, and what was found wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from datetime import timedelta
from typing import TypeVar

import environ  # type: ignore[import-untyped]  # it ships no types; what comes out of it is typed here

from authsvc.conf import durations, schema, values
from authsvc.conf.deprecations import Notice

Value = TypeVar("Value")
Default = TypeVar("Default")

PREFIX = "AUTH_"

# Accepted names of the settings that have several, or one without the prefix; the first that is set counts.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "PORT": ("AUTH_API_PORT", "AUTH_PORT", "PORT"),
    "DATABASE_URL": ("AUTH_DB_DATABASE_URL", "AUTH_DATABASE_URL", "DATABASE_URL"),
    "LOG_LEVEL": ("AUTH_LOG_LEVEL", "LOG_LEVEL"),
    "API_EXTERNAL_URL": ("AUTH_API_EXTERNAL_URL", "API_EXTERNAL_URL"),
    "REQUEST_ID_HEADER": ("AUTH_REQUEST_ID_HEADER", "AUTH_API_REQUEST_ID_HEADER", "REQUEST_ID_HEADER"),
    "DB_NAMESPACE": ("AUTH_DB_NAMESPACE", "DB_NAMESPACE"),
    "JWT_ADMIN_ROLES": ("AUTH_JWT_ADMIN_ROLES", "JWT_ADMIN_ROLES"),
    "DEBUG": ("AUTH_DEBUG", "DEBUG"),
    "OTEL_EXPORTER_PROMETHEUS_HOST": ("AUTH_OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_PROMETHEUS_HOST"),
    "OTEL_EXPORTER_PROMETHEUS_PORT": ("AUTH_OTEL_EXPORTER_PROMETHEUS_PORT", "OTEL_EXPORTER_PROMETHEUS_PORT"),
    "OTEL_RESOURCE_ATTRIBUTES": ("AUTH_OTEL_RESOURCE_ATTRIBUTES", "OTEL_RESOURCE_ATTRIBUTES"),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("AUTH_OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    "EXTERNAL_REDIRECT_URL": ("AUTH_EXTERNAL_REDIRECT_URL", "AUTH_EXTERNAL_REDIRECTURL"),
    "WEB_CONCURRENCY": ("WEB_CONCURRENCY",),
}


def process_environment() -> MutableMapping[str, str]:
    environment: MutableMapping[str, str] = environ.Env.ENVIRON
    return environment


def hand_on(variables: Mapping[str, schema.Secret]) -> None:
    """Put variables where libraries look that read the environment themselves."""
    process_environment().update({name: value.reveal() for name, value in variables.items()})


class Variables:
    """One merged set of variables, read by setting name without the prefix.

    A value that cannot be read becomes a line in `problems` and its default takes its place, so that reading goes on
    and every problem is found in one run.
    """

    def __init__(self, merged: Mapping[str, str]) -> None:
        self._env = environ.Env()
        self._env.ENVIRON = merged
        self.problems: list[str] = []
        self.notices: list[Notice] = []

    def name(self, setting: str) -> str | None:
        """The accepted name under which the setting is set, even if to nothing."""
        return next((name for name in accepted(setting) if name in self._env), None)

    def refuse(self, setting: str, message: str) -> None:
        """A rule is broken. The line starts with the variable's name unless the message tells it."""
        name = self.name(setting) or PREFIX + setting
        self.problems.append(message if name in message else f"{name}: {message}")

    def warn(self, setting: str, message: str, **fields: str) -> None:
        name = self.name(setting) or PREFIX + setting
        self.notices.append(Notice(level="warning", message=message, fields={"setting": name, **fields}))

    def standard(self, start: str) -> dict[str, schema.Secret]:
        """Variables of another standard, whose names begin with `start`, by these names, with our prefix or without.

        All as secrets: some are credentials, and which ones is for that standard to say.
        """
        named = {name.removeprefix(PREFIX) for name in self._env.ENVIRON if name.removeprefix(PREFIX).startswith(start)}
        found = {name: next(each for each in (PREFIX + name, name) if each in self._env) for name in sorted(named)}
        return {name: schema.Secret(self._env.ENVIRON[given]) for name, given in found.items()}

    def text(self, setting: str, default: str = "") -> str:
        return self.read(setting, "string", str, default)

    def required(self, setting: str) -> str:
        text = self.text(setting)
        if not text:
            self.problems.append(f"required key {PREFIX}{setting} missing value")
        return text

    def secret(self, setting: str) -> schema.Secret:
        return schema.Secret(self.text(setting))

    def required_secret(self, setting: str) -> schema.Secret:
        return schema.Secret(self.required(setting))

    def flag(self, setting: str, default: bool) -> bool:
        return self.read(setting, "bool", values.flag, default)

    def integer(self, setting: str, default: int) -> int:
        return self.read(setting, "int", values.integer, default)

    def count(self, setting: str, default: int) -> int:
        """A whole number that is not negative."""
        return self.read(setting, "uint", lambda text: values.integer(text, low=0), default)

    def port(self, setting: str, default: int) -> int:
        return self.read(setting, "port", lambda text: values.integer(text, low=1, high=65535), default)

    def code_length(self, setting: str, default: int) -> int:
        """Digits of a code; outside 6 to 10 the default is taken without a word."""
        length = self.integer(setting, default)
        return length if 6 <= length <= 10 else default

    def number(self, setting: str, default: float) -> float:
        return self.read(setting, "float", values.number, default)

    def duration(self, setting: str, default: Default) -> timedelta | Default:
        return self.read(setting, "duration", durations.parse, default)

    def seconds(self, setting: str, default: timedelta) -> timedelta:
        """A bare number of seconds or a duration."""
        return self.read(setting, "seconds", values.seconds, default)

    def whole_seconds(self, setting: str, default: timedelta) -> timedelta:
        """A bare number of seconds; 0 means the default."""
        return self.read(setting, "uint", values.whole_seconds, default) or default

    def items(self, setting: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        return self.read(setting, "list", values.items, default)

    def rate(self, setting: str, default: schema.Rate) -> schema.Rate:
        return self.read(setting, "rate", values.rate, default)

    def read(
        self,
        setting: str,
        kind: str,
        cast: Callable[[str], Value],
        default: Default,
        *,
        is_secret: bool = False,
        is_optional: bool = False,
    ) -> Value | Default:
        """The value, or the default when it is not set or wrong.

        `cast` raises ValueError with the reason. A wrong value is a problem, with `is_optional` only a warning; that of
        a secret is not shown.
        """
        name = self.name(setting)
        if name is None:
            return default
        try:
            # Not `Env.get_value`, which takes a value that starts with `$` for the name of another variable.
            value: Value = self._env.parse_value(self._env.ENVIRON[name], cast)
        except ValueError as error:
            shown = "***" if is_secret else self._env.ENVIRON[name]
            message = f"{name}: invalid {kind} {values.quoted(shown)}: {error}"
            if is_optional:
                self.warn(setting, message)
            else:
                self.problems.append(message)
            return default
        return value


def accepted(setting: str) -> tuple[str, ...]:
    """The names under which a setting may be given; the first that is set counts."""
    return _NAMES.get(setting, (PREFIX + setting,))

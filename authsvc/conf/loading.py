"""Reads the declared settings from a set of variables."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import unquote

import environ  # type: ignore[import-untyped]  # it ships no types
from django.core.exceptions import ImproperlyConfigured

from authsvc.conf import sections
from authsvc.conf.declaration import SectionDeclaration, Setting, fill, members, settings_of
from authsvc.conf.report import Notice, SettingsReport
from authsvc.conf.sections import AuthConfig
from authsvc.conf.types import Secret
from authsvc.conf.value_types import quote

PREFIX = "AUTH_"
REMOVED = {
    "AUTH_MULTI_INSTANCE_MODE": "",
    "AUTH_OPERATOR_TOKEN": "",
    "AUTH_API_ENDPOINT": "",
    "AUTH_SERVER": "; manage.py serve runs granian, and gunicorn -c gunicorn.conf.py authsvc.wsgi runs gunicorn",
}
"""Variables without effect whose use is logged → the text that follows the notice."""
_SIMILARITY = 0.7
USE_OWN_SECRET = "set a random text, such as `openssl rand -hex 32` prints, or the secret that the other service issued"
PUBLISHED_SECRETS = frozenset(
    {
        # Examples in the documents and files of this repository.
        "put at least 32 random characters here",
        "only-while-the-image-is-being-built",
        "0123456789abcdef0123456789abcdef01234567",
        "the password at the mail server",
        "a long password",
        "password",
        "15551234567:123456",
        "authsvc",
        # Examples of Supabase Auth, from which installations migrate.
        "your-super-secret-jwt-token-with-at-least-32-characters-long",
        "super-secret-jwt-token-with-at-least-32-characters-long",
    }
)
"""Secrets that are public because documents show them."""


def load(variables: Mapping[str, str], notices: Sequence[Notice] = ()) -> AuthConfig:
    """The settings in `variables`; `notices` come before those about the settings.

    Raises ImproperlyConfigured with one line for each problem. A line names the variable and shows no secret.
    """
    reader = _Reader(variables)
    config: AuthConfig = reader.read_section(AuthConfig)
    report = reader.report
    sections.check(config, report)
    if report.problems:
        raise ImproperlyConfigured("\n".join(report.problems))
    published = _published_secrets(variables)
    all_notices = [
        *notices,
        *_deprecations(variables),
        *_unknown(variables),
        *(_warning(name, f"{name} is an example from public documents: {USE_OWN_SECRET}") for name in published),
        *report.notices,
    ]
    return replace(config, notices=tuple(all_notices), published_secrets=tuple(published))


@cache
def names_by_variable() -> Mapping[str, tuple[str, ...]]:
    """Every accepted variable → all names of its setting, the first that is set counts."""
    names: dict[str, tuple[str, ...]] = {}
    for field in settings_of(AuthConfig):
        for key in field.setting.keys or ("",):
            alternatives = field.setting.names_for(key)
            names.update(dict.fromkeys(alternatives, alternatives))
    return names


def keep_until_restart(new: AuthConfig, old: AuthConfig) -> tuple[AuthConfig, list[str]]:
    """`new` with the old values of settings that need a restart, and the variables whose change has no effect yet."""
    changed = []
    for field in settings_of(AuthConfig):
        if field.setting.needs_restart:
            before = _value_at(old, field.path)
            if _value_at(new, field.path) != before:
                changed.append(field.setting.documented_name)
                new = _with_value(new, field.path, before)
    return new, changed


def _value_at(section: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        section = getattr(section, name)
    return section


def _with_value(section: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    inner = _with_value(getattr(section, name), tuple(rest), value) if rest else value
    return replace(section, **{name: inner})


class _Reader:
    """A value that cannot be read is a problem and its default is used, so that one run finds every problem."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.report = SettingsReport(variables, names_by_variable())
        self._environment = environ.Env()
        self._environment.ENVIRON = variables

    def read_section(self, kind: type, prefix: str = "") -> Any:
        fields: dict[str, Any] = {}
        for name, member in members(kind, prefix):
            if isinstance(member, SectionDeclaration):
                fields[name] = self._read_sections(member, prefix)
            else:
                fields[name] = self._read_setting(member)
        return kind(**fields)

    def _read_sections(self, declaration: SectionDeclaration, prefix: str) -> Any:
        prefix += declaration.prefix
        if not declaration.keys:
            return self.read_section(declaration.section, prefix)
        return {key: self.read_section(declaration.section, fill(prefix, key)) for key in declaration.keys}

    def _read_setting(self, setting: Setting) -> Any:
        if setting.is_open_ended:
            return self._read_standard(setting.names, setting.default)
        if setting.collect is None:
            return self._read_value(setting, setting.names)
        values = {key: self._read_value(setting, setting.names_for(key)) for key in setting.keys}
        return setting.collect({key: value for key, value in values.items() if value})

    def _read_value(self, setting: Setting, names: tuple[str, ...]) -> Any:
        """The value, or the default when the variable is not set or cannot be used."""
        default = None if setting.collect else setting.default
        name = self.report.written_name(names[0])
        if setting.is_required:
            if name is None or not self._environment.ENVIRON[name]:
                self.report.missing(name or setting.documented_name, help=setting.help)
                name = None
            default = Secret("") if setting.is_secret else ""
        if name is None:
            return default
        text = self._environment.ENVIRON[name]
        try:
            # Not `Env.get_value`, which reads a value that starts with `$` as the name of another variable.
            value = self._environment.parse_value(text, setting.type.parse)
        except ValueError as error:
            shown = "***" if setting.is_secret else text
            message = f"{name}: invalid {setting.type.name} {quote(shown)}: {error}"
            if setting.is_lenient:
                self.report.warning(name, message)
            else:
                self.report.problems.append(message)
            return default
        if setting.falsy_is_default and not value:
            return default
        problem = _range_problem(setting, value) or (setting.check(value) if setting.check else "")
        if problem:
            self.report.error(name, problem)
            return default
        return value

    def _read_standard(self, prefixes: tuple[str, ...], defaults: Mapping[str, Secret]) -> dict[str, Secret]:
        variables = self._environment.ENVIRON
        values: dict[str, Secret] = {}
        for prefix in prefixes:
            for name in sorted(name for name in variables if name.startswith(prefix)):
                values.setdefault(name.removeprefix(PREFIX), Secret(variables[name]))
        return dict(sorted({**defaults, **values}.items()))


def _range_problem(setting: Setting, value: Any) -> str:
    low, high = setting.minimum, setting.maximum
    if (low is None or value >= low) and (high is None or value <= high):
        return ""
    unit = f" {setting.unit}" if setting.unit else ""
    show = setting.type.format
    if low is not None and high is not None:
        return f"must be between {show(low)} and {show(high)}{unit}, was {show(value)}"
    return (
        f"must be at least {show(low)}{unit}, was {show(value)}" if low is not None else f"must be at most {show(high)}"
    )


def _deprecations(variables: Mapping[str, str]) -> Iterator[Notice]:
    """A warning for each deprecated variable that is set."""
    for field in settings_of(AuthConfig):
        name = field.setting.names[0]
        if field.setting.deprecation and name in variables:
            yield _warning(name, field.setting.deprecation.format(name))
    for name, remedy in REMOVED.items():
        if name in variables:
            yield _warning(name, f"DEPRECATION NOTICE: {name} is not supported, will be removed soon{remedy}")


def _unknown(variables: Mapping[str, str]) -> Iterator[Notice]:
    """A warning for each unknown variable with the prefix of the service, with the most similar known name."""
    known = names_by_variable()
    open_ended = tuple(
        name for field in settings_of(AuthConfig) if field.setting.is_open_ended for name in field.setting.names
    )
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known and name not in REMOVED and not name.startswith(open_ended):
            bare = name.removeprefix(PREFIX)
            similar = [bare] if bare in known else difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
            hint = f", did you mean {similar[0]}?" if similar else ""
            yield _warning(name, f"{name} is not a setting and has no effect{hint}")


def _published_secrets(variables: Mapping[str, str]) -> list[str]:
    """The set variables whose secret, or password in a URL, is one of PUBLISHED_SECRETS."""
    names = [
        name
        for field in settings_of(AuthConfig)
        if field.setting.is_secret and not field.setting.is_open_ended
        for key in field.setting.keys or ("",)
        for name in field.setting.names_for(key)
    ]
    return [name for name in names if name in variables and _secret_in(variables[name]) in PUBLISHED_SECRETS]


def _secret_in(text: str) -> str:
    """The password of a database URL, else the text."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator or not scheme.startswith("postgres"):
        return text.strip()
    return unquote(rest.partition("/")[0].rpartition("@")[0].partition(":")[2])


def _warning(name: str, message: str) -> Notice:
    return Notice(level="warning", message=message, fields={"setting": name})

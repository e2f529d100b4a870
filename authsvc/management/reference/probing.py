"""Which variable fills which field of the configuration: found out by setting each, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_network
from typing import Any, TypeVar

from authsvc.conf import env, schema, sections

Value = TypeVar("Value")
Default = TypeVar("Default")
Path = tuple[str, ...]
"""Names of fields, from the configuration down."""

_PROBE = "true"


@dataclass
class Read:
    """How a variable is read."""

    kind: str
    is_required: bool = False
    is_secret: bool = False


class Probe(env.Variables):
    """Variables of which one is set, to something that its default is not; notes what is asked for."""

    def __init__(self, chosen: str = "") -> None:
        super().__init__({})
        self.reads: dict[str, Read] = {}
        self._chosen = chosen

    def required(self, setting: str) -> str:
        text = super().required(setting)
        self.reads[setting].is_required = True
        return text

    def secret(self, setting: str) -> schema.Secret:
        secret = super().secret(setting)
        self.reads[setting].is_secret = True
        return secret

    def required_secret(self, setting: str) -> schema.Secret:
        secret = super().required_secret(setting)
        self.reads[setting].is_secret = True
        return secret

    def code_length(self, setting: str, default: int) -> int:
        length = super().code_length(setting, default)
        self.reads[setting].kind = "code length"
        return length

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
        self.reads[setting] = Read(kind=kind, is_secret=is_secret)
        if setting != self._chosen:
            return default
        other: Any = _another(kind, default)
        return other  # type: ignore[no-any-return]  # of the kind of the default


def fields_of(setting: str) -> list[Path]:
    """The fields that a variable fills, in the order of the schema."""
    return _changed(_default(), sections.build(Probe(setting)))


@cache
def _default() -> schema.AuthConfig:
    return sections.build(Probe())


def _another(kind: str, default: Any) -> Any:
    """A value of the type of the default, and not the default."""
    match default:
        case bool():
            return not default
        case int():
            return default + 1
        case float():
            return default * 2 + 1
        case timedelta():
            return default + timedelta(hours=1000)
        case str() if kind == "server":
            return next(each for each in schema.Server if each != default)
        case str():
            return _PROBE
        case tuple() if kind == "list of networks":
            return (ip_network("192.0.2.0/24"),)
        case tuple():
            return (*default, _PROBE)
        case frozenset():
            return default | {_PROBE}
        case dict():
            return {**default, _PROBE: _PROBE}
        case schema.Rate():
            return schema.Rate(events=default.events + 1)
        case None:
            return datetime(2000, 1, 1, tzinfo=UTC) if kind == "time" else timedelta(hours=1000)
    raise TypeError(f"no other value than {default!r} of {kind} is known")


def _changed(before: Any, after: Any, path: Path = ()) -> list[Path]:
    """The paths of the fields that differ."""
    if before == after:
        return []
    if dataclasses.is_dataclass(before) and dataclasses.is_dataclass(after) and not isinstance(before, schema.Rate):
        names = [each.name for each in dataclasses.fields(before)]
        pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    elif isinstance(before, Mapping) and any(dataclasses.is_dataclass(value) for value in before.values()):
        pairs = [(name, before[name], after[name]) for name in before]
    else:
        return [path]
    return [found for name, old, new in pairs for found in _changed(old, new, (*path, name))]

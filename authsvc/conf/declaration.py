"""Declares settings: one call of `setting` states everything about a setting, next to the field that holds it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from authsvc.conf.types import Secret
from authsvc.conf.value_types import BOOLEAN, SECRET, ValueType

Value = TypeVar("Value")
Section = TypeVar("Section")

_METADATA = "authsvc"
_UNSET: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    names: tuple[str, ...]
    """Accepted variables; the first that is set counts. Relative to the prefix of a section that is used repeatedly."""
    type: ValueType[Any]
    default: Any
    help: str
    documented_name: str
    """The name in documents, and in messages where none is set."""
    is_required: bool = False
    needs_restart: bool = False
    unit: str = ""
    minimum: Any = None
    maximum: Any = None
    check: Callable[[Any], str] | None = None
    """Returns what is wrong with a value; empty when it can be used."""
    is_lenient: bool = False
    """A value that cannot be read is a warning and the default counts."""
    falsy_is_default: bool = False
    """An empty text or 0 counts as the default."""
    example: str = ""
    deprecation: str = ""
    """The notice that is logged at every start where the setting is set; `{}` is the name of the variable."""
    since: str = "0.1.0"
    keys: tuple[str, ...] = ()
    """Values of the placeholder in the names, in lower case."""
    collect: Callable[[dict[str, Any]], Any] | None = None
    """Makes the value of a field with several keys from key → value, of those that are set and not falsy."""
    is_open_ended: bool = False
    """Every variable whose name begins so belongs to the field: name without prefix `AUTH_` → value."""

    @property
    def is_secret(self) -> bool:
        return self.type.is_secret

    def below(self, prefix: str) -> Setting:
        """The setting with complete names."""
        names = tuple(prefix + name for name in self.names)
        return dataclasses.replace(self, names=names, documented_name=prefix + self.documented_name)

    def names_for(self, key: str) -> tuple[str, ...]:
        """The names without placeholder."""
        return tuple(fill(name, key) for name in self.names)


@dataclass(frozen=True, slots=True)
class SectionDeclaration:
    section: type[Any]
    title: str
    prefix: str
    keys: tuple[str, ...]


def fill(name: str, key: str) -> str:
    """`name` with its placeholder `<…>` replaced by `key` in upper case."""
    head, _, rest = name.partition("<")
    return head + key.upper() + rest.partition(">")[2] if rest else name


def setting(
    *names: str,
    type: ValueType[Value],
    help: str,
    default: Value = _UNSET,
    required: bool = False,
    restart: bool = False,
    lenient: bool = False,
    falsy_is_default: bool = False,
    minimum: Value | None = None,
    maximum: Value | None = None,
    check: Callable[[Any], str] | None = None,
    unit: str = "",
    example: str = "",
    documented_name: str = "",
    deprecation: str = "",
    since: str = "0.1.0",
) -> Value:
    """A field of a section; the arguments are the attributes of `Setting`."""
    if default is _UNSET and not required:
        raise TypeError(f"{names[0]} needs a default unless it is required")
    declared_field: Value = _field(
        Setting(
            names=names,
            type=type,
            help=help,
            default=default,
            is_required=required,
            needs_restart=restart,
            is_lenient=lenient,
            falsy_is_default=falsy_is_default,
            minimum=minimum,
            maximum=maximum,
            check=check,
            unit=unit,
            example=example,
            documented_name=documented_name or names[0],
            deprecation=deprecation,
            since=since,
        )
    )
    return declared_field


def settings_by_key(
    name: str, *, type: ValueType[Value], keys: tuple[str, ...], help: str, example: str = ""
) -> Mapping[str, Value]:
    """A field that holds lower-case key → value, for one variable of each key; `name` has a placeholder for it."""
    declared_field: Mapping[str, Value] = _field(
        Setting(
            names=(name,),
            documented_name=name,
            type=type,
            default={},
            help=help,
            keys=keys,
            collect=dict,
            example=example,
        )
    )
    return declared_field


def switches_by_key(name: str, *, keys: tuple[str, ...], help: str, example: str = "") -> frozenset[str]:
    """A field that holds the lower-case keys whose variable is true; `name` has a placeholder for the key."""
    declared_field: frozenset[str] = _field(
        Setting(
            names=(name,),
            documented_name=name,
            type=BOOLEAN,
            default=frozenset(),
            help=help,
            keys=keys,
            collect=frozenset,
            example=example,
        )
    )
    return declared_field


def variables_of_standard(*names: str, help: str, defaults: Mapping[str, str]) -> Mapping[str, Secret]:
    """A field that holds every variable that begins with one of `names`, and `defaults`, by its name without `AUTH_`.

    All values are secrets, because some of them are credentials.
    """
    declared = Setting(
        names=names,
        documented_name=names[0],
        type=SECRET,
        default={name: Secret(value) for name, value in defaults.items()},
        help=help,
        needs_restart=True,
        is_open_ended=True,
    )
    declared_field: Mapping[str, Secret] = _field(declared)
    return declared_field


def section(kind: type[Section], title: str = "", *, prefix: str = "") -> Section:
    """A field that holds another section. `prefix` is put before the names of its settings."""
    declaration = SectionDeclaration(kind, title, prefix, ())
    declared_field: Any = field(default_factory=kind, metadata={_METADATA: declaration})
    value: Section = declared_field
    return value


def section_by_key(kind: type[Section], title: str, *, prefix: str, keys: tuple[str, ...]) -> Mapping[str, Section]:
    """A field that holds key → section; `prefix` has a placeholder for the key."""
    declaration = SectionDeclaration(kind, title, prefix, keys)
    declared_field: Any = field(default_factory=dict, metadata={_METADATA: declaration})
    value: Mapping[str, Section] = declared_field
    return value


@functools.cache
def members(kind: type, prefix: str = "") -> tuple[tuple[str, Setting | SectionDeclaration], ...]:
    """The declared fields of a section by name; the names of settings begin with `prefix`."""
    declared = [
        (member.name, member.metadata[_METADATA]) for member in dataclasses.fields(kind) if _METADATA in member.metadata
    ]
    return tuple((name, item.below(prefix) if isinstance(item, Setting) else item) for name, item in declared)


@dataclass(frozen=True, slots=True)
class SettingField:
    """A field of a section: its setting, with complete names, and its path."""

    title: str
    """Of the section."""
    path: tuple[str, ...]
    setting: Setting


@functools.cache
def settings_of(kind: type) -> tuple[SettingField, ...]:
    """All settings of a section and the sections below it, in the order of their declaration."""
    return tuple(_settings_below(kind))


def _settings_below(
    kind: type, *, prefix: str = "", title: str = "", path: tuple[str, ...] = ()
) -> Iterator[SettingField]:
    for name, member in members(kind, prefix):
        if isinstance(member, Setting):
            yield SettingField(title, (*path, name), member)
        else:
            inner_path = (*path, name, "*") if member.keys else (*path, name)
            for inner in _settings_below(
                member.section, prefix=prefix + member.prefix, title=member.title or title, path=inner_path
            ):
                keys = member.keys or inner.setting.keys
                yield SettingField(inner.title, inner.path, dataclasses.replace(inner.setting, keys=keys))


def _field(declared: Setting) -> Any:
    metadata = {_METADATA: declared}
    # A `Secret` hides itself; other secret values are left out of `repr`.
    is_shown = not declared.is_secret or isinstance(declared.default, Secret)
    if declared.is_required:
        return field(repr=is_shown, metadata=metadata)
    if isinstance(declared.default, dict):
        return field(default_factory=declared.default.copy, repr=is_shown, metadata=metadata)
    return field(default=declared.default, repr=is_shown, metadata=metadata)

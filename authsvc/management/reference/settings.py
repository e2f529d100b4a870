"""The reference of settings: names, types and defaults from the code that reads them, meanings from the schema."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from authsvc.api.openapi import descriptions
from authsvc.conf import durations, env, rules, schema, sections
from authsvc.conf.deprecations import DEPRECATED
from authsvc.management.reference import probing

FIRST_VERSION = "0.1.0"
_TWO = 2
_RESTART = "Needs a restart."
_SINCE = re.compile(r"\s*Since (\d+\.\d+\.\d+)\.")
_KINDS = {
    "bool": "true or false",
    "code length": "6 to 10",
    "uint": "whole number, not negative",
    "int": "whole number",
    "float": "number",
    "duration": "duration (`24h`, `1h30m`)",
    "seconds": "seconds, or duration",
    "list": "list, with commas",
    "map": "pairs, with commas",
    "networks": "networks (CIDR), with commas",
    "list of networks": "networks (CIDR), with commas",
    "rate": "`N`, or `N/duration`",
    "string": "text",
    "time": "time (RFC 3339)",
    "JSON": "JSON",
}
_TITLES = {
    "api": "API",
    "breaches": "Passwords known from breaches",
    "codes": "One-time codes",
    "federation": "Providers in general",
    "jwt": "Tokens",
    "mfa": "Second factors",
    "refresh": "Refresh tokens",
    "sms": "SMS",
    "smtp": "SMTP",
    "webauthn": "WebAuthn",
}
# Read where rules are checked or before there is a configuration: no field is theirs.
_WITHOUT_FIELD = {
    "AUTHSVC_CONFIG_FILE": "File of settings to read instead of `.env`; the environment wins over it. Needs a restart.",
    "AUTHSVC_CONFIG_DIR": "Folder of `.env` and `.json` files that win over everything else. Needs a restart.",
    "AUTH_DB_DRIVER": "Required: `postgres`. Needs a restart.",
    "AUTH_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION": "Known from other servers; only 2 is there.",
    "AUTH_SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE": "Known from other servers; only 100 is there.",
    "AUTH_OTEL_<NAME>": "As the variable without `AUTH_`, and before it. Needs a restart.",
    "OTEL_<NAME>": "Every variable of the OpenTelemetry standard. Needs a restart.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: several variables of one kind stand under a name with a placeholder."""

    names: tuple[str, ...]
    section: str
    kind: str
    default: str
    text: str
    since: str
    is_reloadable: bool
    is_secret: bool
    notice: str = ""


def settings() -> list[Setting]:
    """In the order of the sections; those without a field first. Raises LookupError for a field without a docstring."""
    plain = probing.Probe()
    default = sections.build(plain)
    of_sections = set(plain.reads)
    rules.check(default, plain)
    found: dict[tuple[str, ...], list[str]] = {}
    for name in of_sections:
        changed = probing.fields_of(name)
        if not changed:
            raise LookupError(f"{name} fills no field")
        found.setdefault(_collapsed(changed[0]), []).append(name)
    rows = [_without_field(name, text) for name, text in _WITHOUT_FIELD.items()]
    for path in _ordered(default, list(found)):
        names = sorted(found[path])
        # Two that fill one field are two settings; many are one for each kind of something.
        alike = [names] if len(names) > _TWO else [[name] for name in names]
        rows += [_row(path, each, plain.reads, default) for each in alike]
    forgotten = set(plain.reads) - of_sections - {name.removeprefix(env.PREFIX) for name in _WITHOUT_FIELD}
    if forgotten:
        raise LookupError(f"nothing is said of {sorted(forgotten)}")
    return rows


def page() -> str:
    """The reference as Markdown."""
    rows = settings()
    parts = [_HEAD]
    for section in dict.fromkeys(row.section for row in rows):
        parts.append(f"## {section}\n\n{_TABLE_HEAD}")
        parts += [_line(row) for row in rows if row.section == section]
        parts.append("")
    known = {name for row in rows for name in row.names}
    parts.append("## No longer there\n\nSetting one of these does nothing but put a notice into the log.\n")
    parts += [f"- `{name}`" for name in sorted(set(DEPRECATED) - known)]
    return "\n".join(parts) + "\n"


_HEAD = """# Settings

<!-- Written by `manage.py write_reference`. -->

Variables of the environment, of `.env`, or of the files that `-c` and `-d` name. Where a variable has several names,
the first that is set counts. A duration is a number with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`), or several of them.
Settings without the mark *restart* are taken over by a reload of the configuration directory. A *secret* is shown
nowhere. Every setting is there since 0.1.0 unless its row says otherwise.
"""
_TABLE_HEAD = "| Setting | Type | Default | Means |\n|---|---|---|---|"


def _line(row: Setting) -> str:
    marks = [] if row.is_reloadable else ["restart"]
    marks += ["secret"] if row.is_secret else []
    marks += [f"since {row.since}"] if row.since != FIRST_VERSION else []
    marks += ["deprecated"] if row.notice else []
    text = row.text + (f" {row.notice}" if row.notice else "") + "".join(f" *{mark}*" for mark in marks)
    names = "<br>".join(f"`{name}`" for name in row.names)
    return f"| {names} | {row.kind} | {row.default} | {text.replace('|', chr(92) + '|')} |"


def _row(
    path: tuple[str, ...], names: list[str], reads: Mapping[str, probing.Read], default: schema.AuthConfig
) -> Setting:
    section, (owner, name) = path[0], _owner(default, path)
    text = descriptions.of_fields(owner).get(name, "")
    if not text:
        raise LookupError(f"{owner.__name__}.{name} has no docstring")
    first = reads[names[0]]
    since = _SINCE.search(text)
    accepted, values = _accepted(names, path)
    return Setting(
        names=accepted,
        section=_title(section),
        kind=_KINDS.get(first.kind, first.kind),
        default="required" if first.is_required else _told(_value(default, path), first.kind),
        text=_SINCE.sub("", text).replace(_RESTART, "").strip() + values,
        since=since[1] if since else FIRST_VERSION,
        is_reloadable=_RESTART not in text,
        is_secret=first.is_secret,
        notice=DEPRECATED.get(accepted[0], "").format(accepted[0]),
    )


def _without_field(name: str, text: str) -> Setting:
    return Setting(
        names=(name,),
        section="Sources and inherited settings",
        kind="text",
        default="",
        text=text.replace(_RESTART, "").strip(),
        since=FIRST_VERSION,
        is_reloadable=_RESTART not in text,
        is_secret=False,
    )


def _collapsed(path: tuple[str, ...]) -> tuple[str, ...]:
    """All providers have the same settings."""
    return ("providers", "", *path[2:]) if path[0] == "providers" else path


def _ordered(config: schema.AuthConfig, paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """As the schema has them."""

    def place(path: tuple[str, ...]) -> list[int]:
        places, value = [], config
        for name in path:
            if name == "":
                value = next(iter(value.values()))  # type: ignore[attr-defined]  # a mapping, of whatever
                continue
            places.append([each.name for each in dataclasses.fields(value)].index(name))
            value = getattr(value, name)
        return places

    return sorted(paths, key=place)


def _owner(config: schema.AuthConfig, path: tuple[str, ...]) -> tuple[type, str]:
    """The class of the field that a path leads to, and its name there."""
    return type(_value(config, path[:-1])), path[-1]


def _value(config: schema.AuthConfig, path: tuple[str, ...]) -> Any:
    value: Any = config
    for name in path:
        value = next(iter(value.values())) if name == "" else getattr(value, name)
    return value


def _accepted(names: list[str], path: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The names of a row; of many that differ in one part, one with a placeholder, and what may take its place."""
    if len(names) == 1:
        return env.accepted(names[0]), ""
    head = _common_head(names)
    head = head[: head.rfind("_") + 1]
    tail = _common_head([name[::-1] for name in names])[::-1]
    tail = tail[tail.index("_") :] if "_" in tail else ""
    if path[0] == "providers":
        return (f"{env.PREFIX}{head}<PROVIDER>{tail}",), ""
    kinds = sorted(name.removeprefix(head).removesuffix(tail) for name in names)
    return (f"{env.PREFIX}{head}<KIND>{tail}",), f" KIND: {', '.join(f'`{kind}`' for kind in kinds)}."


def _common_head(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    pairs = enumerate(zip(low, high, strict=False))
    return low[: next((place for place, pair in pairs if pair[0] != pair[1]), len(low))]


def _told(value: Any, kind: str) -> str:
    """A default as it would be written."""
    if isinstance(value, schema.Secret) or value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"`{seconds:g}`" if kind in ("uint", "float") else f"`{_short(value)}`"
    if isinstance(value, schema.Rate):
        return f"`{value.events}`"
    if isinstance(value, tuple | frozenset):
        return f"`{','.join(str(each) for each in value)}`" if value else ""
    if isinstance(value, float):
        return f"`{value:.10f}`".replace("`", "").rstrip("0").rstrip(".").join("``")
    return f"`{value}`" if value != "" else ""


def _short(length: timedelta) -> str:
    """`10m` for what is written `10m0s` in full."""
    return re.sub(r"(?<=[hm])0[ms](?:0s)?$", "", durations.text(length))


def _title(section: str) -> str:
    return _TITLES.get(section, section.replace("_", " ").capitalize())

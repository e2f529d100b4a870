"""The reference page of settings and `.env.example`, both from the declarations of the settings."""

from __future__ import annotations

from itertools import groupby

from authsvc import conf
from authsvc.api import throttling
from authsvc.conf import loading, sources
from authsvc.conf.declaration import Setting, SettingField, settings_of

_FIRST_VERSION = "0.1.0"

_HEAD = """# Settings

<!-- Written by `manage.py write_reference`. -->

Settings are variables of the environment, of `.env`, or of the files that `-c` and `-d` name. Where a setting has
several names, the first that is set counts. A duration is a number with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`), or
several of them. A reload of the configuration directory applies all settings but those marked *restart*. A *secret*
is never shown. Every setting exists since 0.1.0 unless its row says otherwise. An unknown variable that begins with
`AUTH_` is reported at start, together with the most similar name.
"""
_NOTES = {
    "Rate limits": f"""The limits of requests of a client (all but emails and SMS) are token buckets in the
database, which all servers share. A bucket starts full with {throttling.BURST} tokens, whatever the setting is; that of
anonymous sign-ins with the number of the setting. Each request takes a token. Without one the response is 429 with
`Retry-After`. The setting is the refill: 150 in five minutes add a token every two seconds. A bucket is full again an
hour after its first request (factors: a minute), so with 0, {throttling.BURST} requests per hour still pass.
""",
}
_TABLE_HEAD = "| Setting | Type | Default | Meaning |\n|---|---|---|---|"
_EXAMPLE_HEAD = """# Copy this file to .env and fill in the required values. The environment overrides this file.
# A line that is commented out shows the default, or an example behind "e.g.".
# Written by `manage.py write_reference` from the declarations in authsvc/conf/sections/.
"""
_REQUIRED_TITLE = "Required"
_WIDTH = 120


def page() -> str:
    """The reference as Markdown."""
    parts = [_HEAD, f"## Sources\n\n{_TABLE_HEAD}"]
    parts += [f"| `{name}` | path |  | {text} *restart* |" for name, text in sources.HELP.items()]
    parts.append("")
    for title, fields in groupby(settings_of(conf.AuthConfig), key=lambda field: field.title):
        parts += [f"## {title}", "", *([_NOTES[title]] if title in _NOTES else []), _TABLE_HEAD]
        parts += [row(field.setting) for field in fields]
        parts.append("")
    parts.append("## Removed\n\nThese variables have no effect; setting one writes a deprecation notice to the log.\n")
    parts += [f"- `{name}`" for name in sorted(loading.REMOVED)]
    return "\n".join(parts) + "\n"


def row(setting: Setting) -> str:
    """The line of a setting in its table."""
    type_ = setting.type.description or setting.type.name
    type_ += f" ({setting.unit})" if setting.unit else ""
    type_ += _range(setting)
    default = "required" if setting.is_required else _code(setting.type.format(setting.default))
    labels = (
        ["restart"] * setting.needs_restart
        + ["secret"] * setting.is_secret
        + ["deprecated"] * bool(setting.deprecation)
    )
    labels += [f"since {setting.since}"] if setting.since != _FIRST_VERSION else []
    text = setting.help + "".join(f" *{label}*" for label in labels)
    if setting.collect:
        text += f" {_placeholder(setting)}: {', '.join(_code(key.upper()) for key in setting.keys)}."
    suffix = "<NAME>" if setting.is_open_ended else ""
    cells = ("<br>".join(_code(name + suffix) for name in setting.names), type_, default, text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _placeholder(setting: Setting) -> str:
    """The part of the name that stands for a key, such as `TYPE`."""
    return setting.documented_name.partition("<")[2].partition(">")[0]


def example() -> str:
    """The content of `.env.example`: every setting with its help, commented out unless it is required."""
    fields = list(settings_of(conf.AuthConfig))
    lines = [_EXAMPLE_HEAD, _heading(_REQUIRED_TITLE), ""]
    for field in fields:
        if field.setting.is_required:
            lines += _example_lines(field)
    for title, group in groupby((field for field in fields if not field.setting.is_required), key=lambda p: p.title):
        lines += ["", _heading(title), ""]
        for field in group:
            lines += _example_lines(field)
    return "\n".join(lines) + "\n"


def _example_lines(field: SettingField) -> list[str]:
    setting = field.setting
    if setting.is_open_ended or setting.deprecation:
        return []
    default = "" if setting.is_required else setting.type.format(setting.default)
    text = setting.help.replace("`", "")
    if setting.keys and setting.collect:
        text += f" {_placeholder(setting)}: {', '.join(key.upper() for key in setting.keys)}."
    name = setting.documented_name
    if setting.is_required:
        return [*_comment(text), f"{name}={setting.example}"]
    if not default and setting.example:
        text += f" e.g. {setting.example}"
    return [*_comment(text), f"# {name}={default}"]


def _comment(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 3 > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}"
    return [f"#{line}" for line in lines]


def _heading(title: str) -> str:
    return f"# --- {title} ".ljust(_WIDTH, "-")


def _range(setting: Setting) -> str:
    show = setting.type.format
    if setting.minimum is None:
        return ""
    if setting.maximum is None:
        return f", at least {show(setting.minimum)}"
    return f", {show(setting.minimum)} to {show(setting.maximum)}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""

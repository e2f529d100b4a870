"""System checks of what must be right before the first request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

_PLUGINS = {
    "SUBJECTS": "tokens.sessions.subjects.Subjects",
    "TOKEN_GRANTS": "tokens.api.grants.Grant",
    "PHONE_VERIFIER": "authsvc.messaging.PhoneVerifier",
    "CAPTCHA_EXEMPTION": "authsvc.api.captcha.Exemption",
    "EXAMINATIONS": "authsvc.diagnostics.checks.Examination",
    "PERSONAL_DATA": "authsvc.personal_data.PersonalDataSource",
}
"""Setting → the Protocol that each of its entries satisfies."""


@register(Tags.compatibility)
def plugins_are_complete(**_: Any) -> list[CheckMessage]:
    """Every plug-in entry can be imported and has the members that its Protocol names."""
    return [message for setting in _PLUGINS for message in _incomplete(setting)]


def _incomplete(setting: str) -> Iterator[CheckMessage]:
    entries = getattr(settings, setting)
    protocol = import_string(_PLUGINS[setting])
    wanted = {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}
    for path in _paths(entries):
        try:
            plugin = import_string(path)
        except ImportError as error:
            yield Error(f"{setting}: {path} cannot be imported: {error}", id="authsvc.E001")
            continue
        missing = sorted(name for name in wanted if not hasattr(plugin, name))
        if missing:
            yield Error(f"{setting}: {path} lacks {', '.join(missing)}", id="authsvc.E002")


def _paths(entries: Any) -> list[str]:
    if isinstance(entries, dict):
        return list(entries.values())
    return entries if isinstance(entries, list) else [entries]

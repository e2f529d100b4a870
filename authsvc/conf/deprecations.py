"""What an operator should know at every start: inherited settings still in use, and settings that look wrong."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

logger = logging.getLogger("authsvc.config")

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_UNSUPPORTED = "DEPRECATION NOTICE: {} is not supported, will be removed soon"
DEPRECATED = {
    "AUTH_JWT_ADMIN_GROUP_NAME": _UNSUPPORTED,
    "AUTH_JWT_DEFAULT_GROUP_NAME": _UNSUPPORTED,
    "AUTH_MULTI_INSTANCE_MODE": _UNSUPPORTED,
    "AUTH_OPERATOR_TOKEN": _UNSUPPORTED,
    "AUTH_API_ENDPOINT": _UNSUPPORTED,
    "AUTH_EXPERIMENTAL_PROVIDERS_WITH_OWN_LINKING_DOMAIN": (
        "DEPRECATION NOTICE: {} is replaced by AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS"
    ),
}
"""Variable → what the log says of it at every start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line for the log. It is collected while the settings are read and written once logging is set up."""

    level: Literal["info", "warning", "error"]
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further members of the line; `setting` is the variable it is about."""


def find(names: Container[str]) -> tuple[Notice, ...]:
    """A warning for each deprecated variable among `names`, the variables that are set."""
    return tuple(
        Notice(level="warning", message=message.format(name), fields={"setting": name})
        for name, message in DEPRECATED.items()
        if name in names
    )


def announce(notices: Iterable[Notice]) -> None:
    """Write the notices to the log: at start, and again after each reload."""
    for notice in notices:
        logger.log(_LEVELS[notice.level], notice.message, extra={"component": "api", **notice.fields})

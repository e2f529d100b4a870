#!/usr/bin/env python
"""The way in for operators: Django's commands, ours among them."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

_FLAGS = {
    "-c": "AUTHSVC_CONFIG_FILE",
    "--config": "AUTHSVC_CONFIG_FILE",
    "-d": "AUTHSVC_CONFIG_DIR",
    "--config-dir": "AUTHSVC_CONFIG_DIR",
}
# Commands of Django whose own -c or -d means something else: for them only our long forms count.
_WITH_SHORT_FLAGS = frozenset({"shell", "collectstatic", "makemessages"})
_WITHOUT_SETTINGS = frozenset({"help", "--help", "-h", "version", "--version"})


def take_flags(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without our flags, and the variables that the flags stand for. Paths become absolute.

    Raises ValueError when a flag lacks its path.
    """
    kept: list[str] = []
    variables: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*kept, argument, *rest], variables
        flag, is_joined, path = argument.partition("=")
        is_short = not flag.startswith("--")
        if flag not in _FLAGS or (is_short and (is_joined or not _WITH_SHORT_FLAGS.isdisjoint(kept[:1]))):
            kept.append(argument)
            continue
        path = path if is_joined else next(rest, "")
        if not path:
            raise ValueError(f"{flag} needs a path")
        variables[_FLAGS[flag]] = str(Path(path).absolute())
    return kept, variables


def fatal_line(error: Exception) -> str:
    """What a log collector gets to read when the settings cannot be used: one JSON object."""
    fields = {
        "error": str(error),
        "level": "fatal",
        "msg": "unable to load config",
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    return json.dumps(fields, ensure_ascii=False)


def main() -> None:
    try:
        arguments, variables = take_flags(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"manage.py: {error}")
    os.environ.update(variables)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
    # The reloader of `runserver` starts the program again from this list, with the variables in its environment.
    sys.argv[1:] = arguments
    if not _WITHOUT_SETTINGS.intersection(arguments[:1] or ["help"]):
        try:
            settings.INSTALLED_APPS  # noqa: B018  (the first look loads the settings)
        except ImproperlyConfigured as error:
            sys.exit(fatal_line(error))
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()

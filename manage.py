#!/usr/bin/env python
"""Runs management commands, with the flags `--config` and `--config-dir` for all of them."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from authsvc import conf

_FLAGS = {
    "-c": "AUTHSVC_CONFIG_FILE",
    "--config": "AUTHSVC_CONFIG_FILE",
    "-d": "AUTHSVC_CONFIG_DIR",
    "--config-dir": "AUTHSVC_CONFIG_DIR",
}
# Commands of Django that have a -c or -d of their own; only our long flags work with them.
_WITH_SHORT_FLAGS = frozenset({"shell", "collectstatic", "makemessages"})
_WITHOUT_SETTINGS = frozenset({"help", "--help", "-h", "version", "--version"})


def take_flags(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments without our flags, and the variables that the flags set. Paths become absolute.

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
        # The modules that it loads are no garbage, and looking for some takes a seventh of the start.
        gc.disable()
        try:
            settings.INSTALLED_APPS  # noqa: B018  (the first access loads the settings)
        except ImproperlyConfigured as error:
            sys.exit(conf.describe_error(error, is_terminal=sys.stderr.isatty()))
        django.setup()
        gc.enable()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()

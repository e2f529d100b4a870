"""The command line of `manage.py`: flags for the configuration, and help that works without settings."""

from __future__ import annotations

import gc
import os
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser
from django.core.management.color import color_style

from authsvc import conf
from authsvc.conf.sources import DIRECTORY_VARIABLE, FILE_VARIABLE, HELP, process_environment

_FLAGS = {
    "-c": FILE_VARIABLE,
    "--config": FILE_VARIABLE,
    "-d": DIRECTORY_VARIABLE,
    "--config-dir": DIRECTORY_VARIABLE,
}
_FLAG_HELP = (
    (("-c", "--config"), "FILE", HELP[FILE_VARIABLE]),
    (("-d", "--config-dir"), "DIR", HELP[DIRECTORY_VARIABLE]),
)
# Commands of Django that have a -c or -d of their own; only the long flags work with them.
_WITH_SHORT_FLAGS = frozenset({"shell", "test", "collectstatic", "makemessages"})
_HELP = frozenset({"help", "--help", "-h", "version", "--version"})
_APPS = frozenset({"authsvc", "accounts", "tokens", "oauthproviders", "oauthserver", "hooks", "mailer"})
_OF_DJANGO = ("check", "dbshell", "shell", "showmigrations")
"""Commands of Django that `help` lists. The others work too, but are for the development of the service or useless."""
# Any values: the help of a command does not depend on them.
_PLACEHOLDERS = {
    "AUTH_SITE_URL": "http://localhost",
    "AUTH_API_EXTERNAL_URL": "http://localhost",
    "AUTH_DB_DRIVER": "postgres",
    "DATABASE_URL": "postgres://localhost/help",
    "AUTH_JWT_SECRET": "help",
    FILE_VARIABLE: os.devnull,
}


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


def run() -> None:
    """Run the command that `sys.argv` names."""
    try:
        arguments, variables = take_flags(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"manage.py: {error}")
    environment = process_environment()
    environment.update(variables)
    environment.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
    # The reloader of `runserver` starts the program again from this list, with the variables in its environment.
    sys.argv[1:] = arguments
    # The modules that it loads are no garbage, and looking for some takes a seventh of the start.
    gc.disable()
    try:
        settings.INSTALLED_APPS  # noqa: B018  (the first access loads the settings)
    except ImproperlyConfigured as error:
        if arguments and not _is_for_help(arguments):
            sys.exit(conf.describe_error(error, is_terminal=sys.stderr.isatty()))
        _use_placeholders()
    try:
        CommandLine(sys.argv).execute()
        sys.stdout.flush()
    except BrokenPipeError as error:
        # The reader of the output has ended, as in `manage.py doctor | head`. The rest goes nowhere, or the interpreter
        # would report the error again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"manage.py: {error.strerror}")


def _is_for_help(arguments: list[str]) -> bool:
    options = arguments[1 : arguments.index("--")] if "--" in arguments else arguments[1:]
    return arguments[0] in _HELP or not {"--help", "-h"}.isdisjoint(options)


def _use_placeholders() -> None:
    environment = process_environment()
    for name in [name for name in environment if name.startswith("AUTH_") or name in _FLAGS.values()]:
        del environment[name]
    environment.update(_PLACEHOLDERS)


class CommandLine(ManagementUtility):
    def main_help_text(self, commands_only: bool = False) -> str:
        """The commands of the service with their purpose, and the useful ones of Django; only names for completion."""
        apps = {name: str(app) for name, app in get_commands().items()}
        names = sorted(name for name, app in apps.items() if app in _APPS) + list(_OF_DJANGO)
        if commands_only:
            return "\n".join(names)
        style = color_style()
        lines = ["", "usage: manage.py COMMAND [-c FILE] [-d DIR] …", ""]
        for name in names:
            purpose = load_command_class(apps[name], name).help.partition(". ")[0].removesuffix(".")
            lines.append(f"  {style.NOTICE(f'{name:<17}')} {purpose}")
        lines += [
            "",
            *(f"  {(', '.join(flags) + ' ' + metavar).ljust(22)} {text}" for flags, metavar, text in _FLAG_HELP),
        ]
        return "\n".join([*lines, "", "`manage.py COMMAND --help` describes the options of a command."])

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command, whose help describes the flags too; `run` has removed them from the arguments."""
        gc.freeze()  # or the first collection searches all modules
        gc.enable()
        command: BaseCommand = super().fetch_command(subcommand)
        create_parser = command.create_parser

        def create_parser_with_flags(prog_name: str, subcommand: str, **options: Any) -> CommandParser:
            parser = create_parser(prog_name, subcommand, **options)
            short = subcommand not in _WITH_SHORT_FLAGS
            group = parser.add_argument_group("configuration")
            for flags, metavar, text in _FLAG_HELP:
                group.add_argument(*flags[0 if short else 1 :], metavar=metavar, help=text, default=SUPPRESS)
            return parser

        command.create_parser = create_parser_with_flags  # type: ignore[method-assign]  # for this one command
        return command

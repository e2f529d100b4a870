"""The base of commands that operators change things with: one clear line when something is wrong, and a name for the
audit trail."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from psycopg import errors as postgresql

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.db.embedded import EmbeddedDatabaseFailed
from authsvc.errors import ApiError

ACTOR = audit.Administrator(role="manage.py")
"""Whoever may start a command may do anything, and has no name here."""
_LONGEST_PASSWORD_FILE = 4096


class ServiceCommand(BaseCommand):
    requires_system_checks = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ApiError as error:
            raise CommandError(error.message) from None
        except (EmbeddedDatabaseFailed, ImproperlyConfigured) as error:
            raise CommandError(_one_line(error)) from None
        except DatabaseError as error:
            if isinstance(error.__cause__, postgresql.UndefinedTable | postgresql.UndefinedColumn):
                raise CommandError(
                    "the database is not up to date: run manage.py migrate, or start the server"
                ) from None
            raise CommandError(f"database: {_one_line(error)}") from None
        except KeyboardInterrupt:
            raise CommandError("interrupted", returncode=130) from None

    def caller(self, *, audience: str = "") -> Caller:
        """Who calls a service when nobody does; the audience is the configured one unless given."""
        return Caller(audience=audience or conf.current().jwt.aud, link_base=conf.current().api.external_url)

    def tell(self, text: str, *, ending: str = "\n") -> None:
        """Something for the operator to read that is not what the command prints, and no error."""
        self.stderr.write(text, str, ending)
        self.stderr.flush()

    def ask(self, question: str) -> str:
        """An answer from the terminal. Raises CommandError where there is none."""
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask on")
        self.tell(question, ending="")
        return sys.stdin.readline().strip()

    def new_password(self, *, file: str) -> str:
        """A password asked for twice, hidden, or the first line of a file (`-`: standard input)."""
        if file:
            return _first_line(file)
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask for a password on: use --password-file")
        password = getpass("Password: ", stream=sys.stderr)
        if getpass("Password (again): ", stream=sys.stderr) != password:
            raise CommandError("the passwords differ")
        return password


def _first_line(file: str) -> str:
    try:
        text = sys.stdin.readline() if file == "-" else _opening(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {_one_line(error)}") from None
    line = text.splitlines()[0] if text else ""
    if not line:
        raise CommandError("the password is empty")
    return line


def _opening(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_LONGEST_PASSWORD_FILE)


def _one_line(error: Exception) -> str:
    """What an error says, whose text may have several lines; never an address of the database with its password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

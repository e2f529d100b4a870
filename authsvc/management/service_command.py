"""Base of the commands: errors as one line, prompts on the terminal, and the actor of audit entries."""

from __future__ import annotations

import sys
from getpass import getpass, getuser
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


def _system_user() -> str:
    """The name of the system user; empty where it has none, as in some containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return ""


ACTOR = audit.Administrator(role="manage.py", subject=_system_user())
"""Commands have full access and no user."""
_MAX_PASSWORD_FILE_BYTES = 4096


class ServiceCommand(BaseCommand):
    requires_system_checks = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ApiError as error:
            raise CommandError(error.message) from None
        except UnicodeEncodeError:
            raise CommandError("the arguments and the output must be UTF-8") from None
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
        """The caller for service functions; `audience` defaults to the configured one."""
        return Caller(audience=audience or conf.current().jwt.aud, link_base=conf.current().api.external_url)

    def print_notice(self, text: str, *, ending: str = "\n") -> None:
        """Print information for the operator on standard error."""
        self.stderr.write(text, str, ending)
        self.stderr.flush()

    def prompt(self, question: str) -> str:
        """Read a line from the terminal. Raises CommandError without a terminal."""
        if not sys.stdin.isatty():
            raise CommandError("a terminal is required for confirmation")
        self.print_notice(question, ending="")
        return sys.stdin.readline().strip()

    def new_password(self, *, file: str) -> str:
        """Prompt twice for a password, or read the first line of a file (`-`: standard input)."""
        if file:
            return _first_line(file)
        if not sys.stdin.isatty():
            raise CommandError("a terminal is required to enter a password; use --password-file instead")
        while True:
            password = getpass("Password: ", stream=sys.stderr)
            if getpass("Password (again): ", stream=sys.stderr) == password:
                return password
            self.print_notice("The passwords differ.")


def _first_line(file: str) -> str:
    try:
        text = sys.stdin.readline() if file == "-" else _read_start(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {file}: {_one_line(error)}") from None
    line = text.splitlines()[0] if text else ""
    if not line:
        raise CommandError("the password is empty")
    return line


def _read_start(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_MAX_PASSWORD_FILE_BYTES)


def _one_line(error: Exception) -> str:
    """The first line of an error's text, which never contains the database URL with its password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

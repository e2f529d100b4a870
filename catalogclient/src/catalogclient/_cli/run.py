"""Runs one command from its arguments to its exit status."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from catalogclient import (
    CatalogError,
    CommitStateUnknownError,
    InvalidArgumentError,
    NetworkError,
    OAuthError,
    RestCatalog,
)
from catalogclient._cli import arguments, commands, display
from catalogclient._cli.arguments import Status


def main(given: Sequence[str]) -> int:
    """The exit status; wrong arguments leave the program right away."""
    parsed = arguments.parse(given, os.environ)
    warnings.showwarning = _show_warning
    try:
        auth = arguments.auth(parsed, os.environ)
        with RestCatalog(parsed.uri, warehouse=parsed.warehouse, auth=auth) as catalog:
            found = commands.COMMANDS[parsed.command](catalog, parsed)
        as_json = parsed.output == "json" or (parsed.output == "auto" and not sys.stdout.isatty())
        display.show(found, output=sys.stdout, as_json=as_json)
        sys.stdout.flush()
    except CatalogError as error:
        return _failed(str(error), _status(error))
    except BrokenPipeError:
        # Whoever read has seen enough (`| head`); the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.DONE
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}", Status.USAGE)
    except UnicodeDecodeError:
        return _failed("a file is not UTF-8 text", Status.USAGE)
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    return Status.DONE


def _status(error: CatalogError) -> Status:
    if error.is_commit_state_unknown or error.maybe_applied or isinstance(error, CommitStateUnknownError):
        return Status.UNKNOWN
    if isinstance(error, NetworkError):
        return Status.NO_ANSWER
    if isinstance(error, InvalidArgumentError):
        return Status.USAGE
    if error.is_unauthorized or error.is_forbidden or error.is_authentication_timeout or isinstance(error, OAuthError):
        return Status.NOT_ALLOWED
    return {404: Status.NOT_FOUND, 409: Status.CONFLICT}.get(error.status, Status.FAILED)


def _failed(message: str, status: Status) -> Status:
    sys.stderr.write(f"error: {display.printable(message)}\n")
    return status


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {display.printable(message)}\n")

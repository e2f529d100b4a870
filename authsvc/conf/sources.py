"""The sources of variables in order of precedence: configuration directory, environment, base file."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import environ  # type: ignore[import-untyped]  # it ships no types
import orjson
from django.core.exceptions import ImproperlyConfigured

from authsvc.conf import dotenv
from authsvc.conf.report import Notice
from authsvc.conf.types import Secret

FILE_VARIABLE = "AUTHSVC_CONFIG_FILE"
DIRECTORY_VARIABLE = "AUTHSVC_CONFIG_DIR"
HELP = {
    FILE_VARIABLE: "File of settings to read instead of `.env`; it must exist. The environment overrides it.",
    DIRECTORY_VARIABLE: "Folder of `.env` and `.json` files that override all other sources.",
}
"""They are read before there is a configuration, so they are no fields of it."""

_OPTIONAL_FILE = Path(".env")


def process_environment() -> MutableMapping[str, str]:
    environment: MutableMapping[str, str] = environ.Env.ENVIRON
    return environment


def export_variables(variables: Mapping[str, Secret]) -> None:
    """Put variables into the environment of this process, for libraries that read it themselves."""
    process_environment().update({name: value.reveal() for name, value in variables.items()})


def merge(environment: Mapping[str, str]) -> tuple[dict[str, str], list[Notice]]:
    """All variables, and notices about the sources.

    Raises ImproperlyConfigured when the base file cannot be used. A configuration directory that cannot be used is only
    an error line, and the service starts with the other sources.
    """
    variables = without_directory(environment)
    folder = environment.get(DIRECTORY_VARIABLE, "")
    if not folder:
        return variables, []
    try:
        return variables | read_directory(Path(folder)), []
    except (OSError, ValueError) as error:
        fields = {"error": _reason(error)}
        return variables, [Notice(level="error", message="unable to load config from watch dir", fields=fields)]


def without_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the base file, overridden by those of the environment. Raises ImproperlyConfigured."""
    return {**_read_base_file(environment.get(FILE_VARIABLE, "")), **environment}


def read_directory(folder: Path) -> dict[str, str]:
    """The variables of a configuration directory. Files are read in byte order of their names, later ones win.

    Only `.env` and `.json` files are read; `X.env` is skipped beside `X.json`. Raises OSError, or ValueError for a file
    that cannot be parsed.
    """
    names = {entry.name for entry in os.scandir(folder) if not entry.is_dir()}
    variables: dict[str, str] = {}
    for name in sorted(names, key=os.fsencode):
        if name.endswith(".json"):
            variables |= _read_json(folder / name)
        elif name.endswith(".env") and f"{name.removesuffix('.env')}.json" not in names:
            variables |= _read_dotenv(folder / name)
    return variables


def _read_base_file(path_in_variable: str) -> dict[str, str]:
    path = Path(path_in_variable) if path_in_variable else _OPTIONAL_FILE
    try:
        return _read_dotenv(path)
    except FileNotFoundError as error:
        if not path_in_variable:
            return {}
        raise ImproperlyConfigured(f"{path}: {_reason(error)}") from None
    except OSError as error:
        raise ImproperlyConfigured(f"{path}: {_reason(error)}") from None
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None


def _read_dotenv(path: Path) -> dict[str, str]:
    try:
        return dotenv.parse(path.read_bytes().decode("utf-8-sig"))
    except dotenv.DotenvError as error:
        raise ValueError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8") from None


def _read_json(path: Path) -> dict[str, str]:
    try:
        value = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        raise ValueError(f"{path}: not JSON") from None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{path}: not a JSON object of strings")
    return value


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or "cannot be read" if isinstance(error, OSError) else str(error)

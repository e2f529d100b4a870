"""Reads named catalogs from files and environment variables, in the property names of PyIceberg."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catalogclient import InvalidArgumentError

_PREFIX = "CATALOGCLIENT_CATALOG__"
_SHORT_NAMES = {"CATALOG_URI": "uri", "CATALOG_WAREHOUSE": "warehouse", "CATALOG_TOKEN": "token"}


def properties(name: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a named catalog, or of the default catalog if `name` is None.

    Environment variables override `catalogclient.toml`, which overrides `.pyiceberg.yaml`. Raises InvalidArgumentError
    for an unknown name or an invalid file, and OSError for a file that cannot be read.
    """
    files = [_toml(environment), _pyiceberg(environment)]
    chosen = name or environment.get("CATALOGCLIENT_CATALOG") or str(files[0].get("default") or "default")
    values: dict[str, str] = {}
    for document, key in ((files[1], "catalog"), (files[0], "catalogs")):
        catalogs = document.get(key) or {}
        entry = catalogs.get(chosen, {}) if isinstance(catalogs, dict) else None
        if not isinstance(entry, dict):
            raise InvalidArgumentError(f"the entry of the catalog {chosen} is not a mapping")
        values |= {str(property_): _text(value) for property_, value in entry.items()}
    prefix = f"{_PREFIX}{chosen.upper().replace('-', '_')}__"
    for variable, value in environment.items():
        if variable.startswith(prefix):
            values[variable.removeprefix(prefix).lower().replace("__", ".").replace("_", "-")] = value
    if name and not values:
        raise InvalidArgumentError(f"no catalog is named {name}; see --help for the files and variables")
    return values


def short_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties from CATALOG_URI and the other variables of a single catalog."""
    values = {property_: environment[name] for name, property_ in _SHORT_NAMES.items() if environment.get(name)}
    if environment.get("CATALOG_CREDENTIAL") and "token" not in values:
        values["credential"] = environment["CATALOG_CREDENTIAL"]
    return values


def _toml(environment: Mapping[str, str]) -> dict[str, Any]:
    config_file = environment.get("CATALOGCLIENT_CONFIG")
    folder = Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")
    path = Path(config_file) if config_file else folder / "catalogclient.toml"
    if not config_file and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError(f"{path} is not valid TOML: {error}") from error


def _pyiceberg(environment: Mapping[str, str]) -> dict[str, Any]:
    folders = [environment.get("PYICEBERG_HOME"), str(_home(environment)), "."]
    paths = [Path(folder) / ".pyiceberg.yaml" for folder in folders if folder]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return {}
    import yaml  # noqa: PLC0415  (needed for this file only)

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InvalidArgumentError(f"{path} is not valid YAML: {type(error).__name__}") from error
    return document if isinstance(document, dict) else {}


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

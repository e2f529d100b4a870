"""Defines and parses the command line arguments."""

from __future__ import annotations

import argparse
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from catalogclient import __version__


class ExitStatus(enum.IntEnum):
    """Exit statuses."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    NO_RESPONSE = 6
    UNKNOWN = 7
    INTERRUPTED = 130


EPILOG = """\
Options may be placed before or after the command.

catalogs:
  --catalog NAME selects a catalog from these sources, the first one wins for each property:
    CATALOGCLIENT_CATALOG__<NAME>__<PROPERTY>   environment; __ means a dot and _ a hyphen in the property name
    ~/.config/catalogclient.toml                [catalogs.NAME] sections, `default = "NAME"`; or CATALOGCLIENT_CONFIG
    .pyiceberg.yaml                             in PYICEBERG_HOME, the home folder or the current folder
  The properties are those of PyIceberg: uri, warehouse, prefix, token, credential, oauth2-server-uri, scope,
  rest.sigv4-enabled, header.<NAME> and others. Without --catalog and --uri, CATALOGCLIENT_CATALOG, the default of the
  file or the name "default" applies.

environment:
  CATALOG_URI          URL of the catalog
  CATALOG_WAREHOUSE    warehouse
  CATALOG_TOKEN        bearer token
  CATALOG_CREDENTIAL   CLIENT_ID:CLIENT_SECRET, exchanged for a token at --token-url
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   keys for --sigv4-region
A token or secret is never accepted as an argument, because all users of the machine can read arguments.

names:
  Levels are separated by dots: accounting.tax.paid. Write a name that contains a dot as a JSON list:
  '["accounting", "tax.2026", "paid"]'.

exit status:
  0  done                                  4  not authenticated or not authorized
  1  the server returned an error          5  conflict: exists, is not empty, or was changed concurrently
  2  wrong usage                           6  no response from the server
  3  not found                             7  unknown outcome of a change; check it before you try again
"""


class _RejectSecret(argparse.Action):
    """Rejects an argument that would expose a secret. The message does not contain its value."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error("arguments are visible to other users: put the secret into an environment variable or a file")


def identifier(text: str) -> tuple[str, ...]:
    """Parse `a.b.c` or a JSON list of names."""
    if not text.startswith("["):
        return tuple(text.split("."))
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise argparse.ArgumentTypeError(f"not a JSON list of names: {text}")
    return tuple(names)


def table_identifier(text: str) -> tuple[str, ...]:
    """Parse an identifier that has a namespace."""
    names = identifier(text)
    if len(names) < 2:
        raise argparse.ArgumentTypeError(f"the namespace is missing: NAMESPACE.{text}")
    return names


def pair(text: str) -> tuple[str, str]:
    """Parse `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text}")
    return key, value


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Exits with `ExitStatus.USAGE` if they are wrong."""
    top = argparse.ArgumentParser(
        prog="catalogclient",
        description="Show and change an Iceberg REST catalog.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"catalogclient {__version__}")
    for name, settings in COMMON.items():
        top.add_argument(name, **settings)
    _add_commands(top)
    return top.parse_args(arguments)


COMMON: Mapping[str, dict[str, Any]] = {
    "--catalog": {"metavar": "NAME", "help": "named catalog, see below"},
    "--uri": {"metavar": "URL", "help": "URL of the catalog"},
    "--warehouse": {"help": "warehouse"},
    "--prefix": {"help": "prefix of all paths instead of the server's; empty for none"},
    "--config-mode": {
        "choices": ("auto", "always", "never"),
        "help": "when to request the server's configuration (default: auto)",
    },
    "--token-file": {"type": Path, "metavar": "FILE", "help": "file with a bearer token"},
    "--credential-file": {"type": Path, "metavar": "FILE", "help": "file with CLIENT_ID:CLIENT_SECRET"},
    "--token-url": {"metavar": "URL", "help": "token endpoint for a credential"},
    "--scope": {"help": "scope of the token (default: catalog)"},
    "--header-file": {"type": Path, "metavar": "FILE", "help": "file with an auth header field NAME: VALUE"},
    "--sigv4-region": {"metavar": "REGION", "help": "sign requests with AWS Signature Version 4"},
    "--sigv4-service": {"metavar": "NAME", "help": "service of the signature (default: execute-api)"},
    "--token": {"action": _RejectSecret, "help": argparse.SUPPRESS},
    "--credential": {"action": _RejectSecret, "help": argparse.SUPPRESS},
    "--output": {
        "choices": ("auto", "table", "json"),
        "help": "auto is a table on a terminal, otherwise JSON (default: auto)",
    },
}
"""Options of every command."""


def _add_commands(top: argparse.ArgumentParser) -> None:
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add_command(name: str, summary: str) -> argparse.ArgumentParser:
        parser = subparsers.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        for option, settings in COMMON.items():
            # Without a default, an option before the command stays valid.
            parser.add_argument(option, **{**settings, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS})
        return parser

    list_names = add_command("list", "list namespaces, or the content of a namespace")
    list_names.add_argument("namespace", type=identifier, nargs="?", default=(), metavar="NAMESPACE")
    list_names.add_argument("--views", action="store_true", help="views instead of tables")
    list_names.add_argument("--recursive", action="store_true", help="namespaces of all levels")

    show = add_command("show", "show columns, properties and snapshots of a table")
    show.add_argument("table", type=table_identifier, metavar="TABLE")
    show.add_argument("--view", action="store_true", help="TABLE is a view")

    properties = add_command("properties", "show or change properties of a namespace or table")
    properties.add_argument("name", type=identifier, metavar="NAME")
    properties.add_argument("--table", action="store_true", help="NAME is a table, not a namespace")
    properties.add_argument("--set", type=pair, action="append", default=[], metavar="KEY=VALUE")
    properties.add_argument("--remove", action="append", default=[], metavar="KEY")

    create = add_command("create", "create a table")
    create.add_argument("table", type=table_identifier, metavar="TABLE")
    create.add_argument(
        "schema",
        type=Path,
        metavar="SCHEMA_FILE",
        help="JSON file with an Iceberg schema or a create request that has a `schema`; - for stdin",
    )
    create.add_argument("--location", metavar="URI", help="location of the table")
    create.add_argument("--property", type=pair, action="append", default=[], metavar="KEY=VALUE")

    create_namespace = add_command("create-namespace", "create a namespace")
    create_namespace.add_argument("namespace", type=identifier, metavar="NAMESPACE")
    create_namespace.add_argument("--property", type=pair, action="append", default=[], metavar="KEY=VALUE")

    rename = add_command("rename", "rename a table")
    rename.add_argument("source", type=table_identifier, metavar="TABLE")
    rename.add_argument("destination", type=table_identifier, metavar="NEW_NAME")
    rename.add_argument("--view", action="store_true", help="TABLE is a view")

    drop = add_command("drop", "drop a table from the catalog")
    drop.add_argument("table", type=table_identifier, metavar="TABLE")
    kind = drop.add_mutually_exclusive_group()
    kind.add_argument("--view", action="store_true", help="TABLE is a view")
    kind.add_argument("--purge", action="store_true", help="request the server to delete the files of the table")

    drop_namespace = add_command("drop-namespace", "drop an empty namespace")
    drop_namespace.add_argument("namespace", type=identifier, metavar="NAMESPACE")

    credentials = add_command("credentials", "show the credentials for the files of a table, with masked secrets")
    credentials.add_argument("table", type=table_identifier, metavar="TABLE")

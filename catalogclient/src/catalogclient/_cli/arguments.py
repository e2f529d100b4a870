"""What may be said on the command line and in the environment."""

from __future__ import annotations

import argparse
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from catalogclient.auth import AuthConfig


class Status(enum.IntEnum):
    """Exit statuses."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    NO_ANSWER = 6
    UNKNOWN = 7
    INTERRUPTED = 130


EPILOG = """\
environment:
  CATALOG_URI         address of the catalog, if --uri is not given
  CATALOG_WAREHOUSE   warehouse, if --warehouse is not given
  CATALOG_TOKEN       bearer token
  CATALOG_CREDENTIAL  CLIENT_ID:CLIENT_SECRET, changed for a token at --token-url
A token or secret is never taken from an argument: every user of the machine can read those.

names:
  Levels are separated by dots: accounting.tax.paid. A name that has a dot itself is written as a JSON list:
  '["accounting", "tax.2026", "paid"]'.

exit status:
  0  done                          4  not signed in, or not allowed
  1  the server reported an error  5  exists already, is not empty, or was changed meanwhile
  2  wrong usage                   6  no answer from the server
  3  not found                     7  sent, but nobody knows whether it was done; look before trying again
"""


class _Refused(argparse.Action):
    """An argument that would show a secret to other users; its value is not repeated."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error("other users can read arguments: put the token into CATALOG_TOKEN or a file (--token-file)")


def identifier(text: str) -> tuple[str, ...]:
    """`a.b.c`, or a JSON list of names."""
    if not text.startswith("["):
        return tuple(text.split("."))
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise argparse.ArgumentTypeError(f"not a JSON list of names: {text}")
    return tuple(names)


def table_identifier(text: str) -> tuple[str, ...]:
    """An identifier with a namespace in front of the name."""
    names = identifier(text)
    if len(names) < 2:
        raise argparse.ArgumentTypeError(f"a namespace is missing: NAMESPACE.{text}")
    return names


def pair(text: str) -> tuple[str, str]:
    """`KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"not KEY=VALUE: {text}")
    return key, value


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m catalogclient",
        description="Look into and change an Iceberg REST catalog.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--uri", default=environment.get("CATALOG_URI"), help="address of the catalog")
    top.add_argument("--warehouse", default=environment.get("CATALOG_WAREHOUSE"), help="warehouse in that catalog")
    top.add_argument("--token-file", type=Path, metavar="FILE", help="file that holds a bearer token")
    top.add_argument("--credential-file", type=Path, metavar="FILE", help="file that holds CLIENT_ID:CLIENT_SECRET")
    top.add_argument("--token-url", metavar="URL", help="where a credential is changed for a token")
    top.add_argument("--scope", default="catalog", help="scope of that token (default: %(default)s)")
    top.add_argument("--token", action=_Refused, help=argparse.SUPPRESS)
    top.add_argument("--credential", action=_Refused, help=argparse.SUPPRESS)
    top.add_argument(
        "--output",
        choices=("auto", "table", "json"),
        default="auto",
        help="auto is a table on a terminal, otherwise JSON (default: %(default)s)",
    )
    _commands(top)
    return top


def _commands(top: argparse.ArgumentParser) -> None:
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)

    listed = command("list", "namespaces, or what a namespace holds")
    listed.add_argument("namespace", type=identifier, nargs="?", default=(), metavar="NAMESPACE")
    listed.add_argument("--views", action="store_true", help="views instead of tables")
    listed.add_argument("--recursive", action="store_true", help="namespaces of every depth")

    shown = command("show", "a table: its columns, properties and snapshots")
    shown.add_argument("table", type=table_identifier, metavar="TABLE")
    shown.add_argument("--view", action="store_true", help="it is a view")

    properties = command("properties", "properties of a namespace or table, changed first if asked")
    properties.add_argument("name", type=identifier, metavar="NAME")
    properties.add_argument("--table", action="store_true", help="NAME is a table, not a namespace")
    properties.add_argument("--set", type=pair, action="append", default=[], metavar="KEY=VALUE")
    properties.add_argument("--remove", action="append", default=[], metavar="KEY")

    created = command("create", "a table with the columns of a file")
    created.add_argument("table", type=table_identifier, metavar="TABLE")
    created.add_argument(
        "schema",
        type=Path,
        metavar="SCHEMA_FILE",
        help="JSON: an Iceberg schema, or a request to create a table that holds one under `schema`; - for stdin",
    )
    created.add_argument("--location", metavar="URI", help="where its files go")
    created.add_argument("--property", type=pair, action="append", default=[], metavar="KEY=VALUE")

    namespace = command("create-namespace", "a namespace")
    namespace.add_argument("namespace", type=identifier, metavar="NAMESPACE")
    namespace.add_argument("--property", type=pair, action="append", default=[], metavar="KEY=VALUE")

    renamed = command("rename", "a table")
    renamed.add_argument("source", type=table_identifier, metavar="TABLE")
    renamed.add_argument("destination", type=table_identifier, metavar="NEW_NAME")
    renamed.add_argument("--view", action="store_true", help="it is a view")

    dropped = command("drop", "a table from the catalog")
    dropped.add_argument("table", type=table_identifier, metavar="TABLE")
    what = dropped.add_mutually_exclusive_group()
    what.add_argument("--view", action="store_true", help="it is a view")
    what.add_argument("--purge", action="store_true", help="have its files deleted too")

    emptied = command("drop-namespace", "an empty namespace")
    emptied.add_argument("namespace", type=identifier, metavar="NAMESPACE")

    credentials = command("credentials", "what the server hands out for a table's files, secrets masked")
    credentials.add_argument("table", type=table_identifier, metavar="TABLE")


def auth(arguments: argparse.Namespace, environment: Mapping[str, str]) -> AuthConfig | None:
    """How to sign in, None for not at all: a named file comes first, then CATALOG_TOKEN, then CATALOG_CREDENTIAL.

    OSError if a file cannot be read.
    """
    token = credential = ""
    if arguments.token_file:
        token = arguments.token_file.read_text().strip()
    elif arguments.credential_file:
        credential = arguments.credential_file.read_text().strip()
    else:
        token = environment.get("CATALOG_TOKEN", "")
        credential = environment.get("CATALOG_CREDENTIAL", "")
    if token:
        return {"type": "bearer", "token": token}
    if credential:
        client_id, colon, secret = credential.partition(":")
        url = arguments.token_url or f"{arguments.uri.rstrip('/')}/v1/oauth/tokens"
        return {
            "type": "oauth2",
            # Some servers know a secret alone, without the name of its client.
            "client_id": client_id if colon else None,
            "client_secret": secret if colon else credential,
            "token_url": url,
            "scope": arguments.scope,
        }
    return None


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    """Leaves the program with `Status.USAGE` when something is wrong."""
    known = parser(environment)
    parsed = known.parse_args(arguments)
    if not parsed.uri:
        known.error("no catalog named: give --uri or set CATALOG_URI")
    return parsed

"""Runs a command and returns its exit status."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import (
    CatalogError,
    CommitStateUnknownError,
    InvalidArgumentError,
    InvalidResponseError,
    NetworkError,
    OAuthError,
    RestCatalog,
    RestCatalogOptions,
    SigV4Auth,
    _properties,
)
from catalogclient._cli import arguments, commands, display, settings
from catalogclient._cli.arguments import ExitStatus
from catalogclient._guards import convert_errors


def main(argv: Sequence[str]) -> int:
    """Return the exit status. Wrong arguments exit at once."""
    parsed = arguments.parse(argv)
    warnings.showwarning = _show_warning
    # A lone surrogate becomes its JSON escape.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a TextIOWrapper
    try:
        options = _options(parsed, os.environ)
        as_json = parsed.output == "json" or (parsed.output != "table" and not sys.stdout.isatty())
        with RestCatalog(options) as catalog, convert_errors("the response is invalid", InvalidResponseError):
            text = display.render(commands.COMMANDS[parsed.command](catalog, parsed), as_json=as_json)
        sys.stdout.write(text)
        sys.stdout.flush()
    except CatalogError as error:
        return _report_error(str(error), _status(error))
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). The interpreter must not flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.DONE
    except OSError as error:
        return _report_error(f"{error.filename}: {error.strerror}", ExitStatus.USAGE)
    except UnicodeDecodeError:
        return _report_error("a file is not UTF-8 text", ExitStatus.USAGE)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    return ExitStatus.DONE


def _options(parsed: argparse.Namespace, environment: Mapping[str, str]) -> RestCatalogOptions:
    properties: dict[str, str] = {}
    short = settings.short_variables(environment)
    if parsed.catalog or not (parsed.uri or "uri" in short):
        properties = settings.properties(parsed.catalog, environment)
    if not parsed.catalog:
        properties |= short
    for name in ("uri", "warehouse", "prefix", "scope"):
        if getattr(parsed, name) is not None:
            properties[name] = getattr(parsed, name)
    if not properties.get("uri"):
        raise InvalidArgumentError("no catalog given: use --uri, --catalog, CATALOG_URI or a configuration file")
    secret = parsed.token_file or parsed.credential_file
    if secret:
        for name in ("token", "credential"):
            properties.pop(name, None)
        properties["token" if parsed.token_file else "credential"] = secret.read_text(encoding="utf-8").strip()
    own_endpoint = f"{properties['uri'].rstrip('/')}/v1/oauth/tokens"
    properties["oauth2-server-uri"] = parsed.token_url or properties.get("oauth2-server-uri") or own_endpoint
    options = _properties.options(properties)
    changes: dict[str, Any] = {"config_mode": parsed.config_mode or "auto"}
    if parsed.header_file:
        name, colon, value = parsed.header_file.read_text(encoding="utf-8").strip().partition(":")
        if not colon:
            raise InvalidArgumentError(f"{parsed.header_file} does not contain NAME: VALUE")
        changes["auth"] = {"type": "header", "name": name.strip(), "value": value.strip()}
    if parsed.sigv4_region:
        changes["auth"] = _sigv4(parsed.sigv4_region, parsed.sigv4_service or "execute-api", environment)
    return dataclasses.replace(options, **changes)


def _sigv4(region: str, service: str, environment: Mapping[str, str]) -> SigV4Auth:
    if not environment.get("AWS_ACCESS_KEY_ID"):
        return SigV4Auth.from_botocore(region, service)
    return SigV4Auth(
        region,
        service=service,
        access_key=environment["AWS_ACCESS_KEY_ID"],
        secret_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        session_token=environment.get("AWS_SESSION_TOKEN"),
    )


def _status(error: CatalogError) -> ExitStatus:
    if error.is_commit_state_unknown or error.maybe_applied or isinstance(error, CommitStateUnknownError):
        return ExitStatus.UNKNOWN
    if isinstance(error, NetworkError):
        return ExitStatus.NO_RESPONSE
    if isinstance(error, InvalidArgumentError):
        return ExitStatus.USAGE
    if error.is_unauthorized or error.is_forbidden or error.is_authentication_timeout or isinstance(error, OAuthError):
        return ExitStatus.NOT_ALLOWED
    return {404: ExitStatus.NOT_FOUND, 409: ExitStatus.CONFLICT}.get(error.status, ExitStatus.FAILED)


def _report_error(message: str, status: ExitStatus) -> ExitStatus:
    sys.stderr.write(f"error: {display.format_value(message)}\n")
    return status


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {display.format_value(message)}\n")

"""Writes the error reference: every error code with its remedy, texts and endpoints."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

from django.apps import apps

from authsvc.api.openapi import descriptions, responses
from authsvc.api.openapi import operations as routes
from authsvc.api.openapi.operations import Operation
from authsvc.errors import ApiError, BadJson, OAuthError
from authsvc.management.reference.error_help import REMEDIES

Kind = type[ApiError] | type[OAuthError]

_INTRODUCTION = """# Errors

<!-- Written by `manage.py write_reference`. -->

An error has a status, a stable error code for programs, and a message, which may change. It has one of two
formats:

```json
{"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"}
```

and, with the request header `X-Supabase-Api-Version: 2024-01-01` or later:

```json
{"code": "invalid_credentials", "message": "Invalid login credentials"}
```

The header `X-Sb-Error-Code` contains the error code in both formats. `weak_password` adds
`{"weak_password": {"reasons": ["length"]}}`. A 5xx in the first format adds `error_id`, the request id in the log. A
429 has a `Retry-After` header. Where a hint stands below, both formats add it as `hint`, but only on a server with
the API page (`AUTH_API_DOCS_ENABLED`, or the development inbox). A redirect passes the error to its target as
`error`, `error_code` and `error_description`. In texts, `{…}` stands for a parameter.

A database trigger or constraint that the operator adds may return its own message: `code` is then its SQLSTATE
(`PT403`, for example, sets the status 403), with `message`, and with `hint` and `detail` if the trigger sets them.
"""
_OAUTH = """## Errors in the format of RFC 6749

Status 400, and no error code except `error`:

```json
{"error": "invalid_request", "error_description": "id_token required"}
```

| `error_description` | Returned by |
|---|---|
"""


def find_errors() -> set[type[ApiError]]:
    """Every error of the API and of the console."""
    packages = {config.name for config in apps.get_app_configs() if not config.name.startswith(("django", "rest_"))}
    for name in {package.partition(".")[0] for package in packages} - {"procrastinate"}:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    return {error for error in _subclasses(ApiError) if error.__module__.partition(".")[0] != "tests"}


def page() -> str:
    """The reference as Markdown. Raises LookupError for a missing or unused remedy."""
    operations = routes.operations()
    places: dict[Kind, list[Operation]] = defaultdict(list)
    for operation in operations:
        for error in dict.fromkeys((*operation.documented_errors, *operation.doc.redirect_errors)):
            places[error].append(operation)
    undescribed: dict[Kind, list[str]] = defaultdict(list)
    for path, view in routes.endpoints(described=False):
        for error in view.documented_errors:
            undescribed[error].append(f"`{path}`")
    groups = {
        "every endpoint with a token": [operation for operation in operations if operation.scheme],
        "every endpoint for administrators": [operation for operation in operations if operation.scheme == "admin"],
        "every endpoint with a body": [operation for operation in operations if BadJson in operation.documented_errors],
        "every endpoint of passkeys": [operation for operation in operations if operation.path.startswith("/passkeys")],
    }

    def returned_by(error: Kind) -> str:
        """The endpoints of an error; groups of endpoints are named as a whole."""
        if error in responses.ANYWHERE:
            return "every endpoint"
        if _is_of_hooks(error):
            return "every endpoint that asks a hook"
        remaining, names = list(places[error]), []
        for name, members in groups.items():
            if all(member in remaining for member in members):
                names.append(name)
                remaining = [operation for operation in remaining if operation not in members]
        names += [f"`{operation.method.upper()} {operation.path}`" for operation in remaining]
        return ", ".join(names or undescribed[error]) or "the operator console"

    by_code: dict[str, list[type[ApiError]]] = defaultdict(list)
    for error in find_errors():
        # A class without endpoints and without a message is only a base class.
        if error in places or error in responses.ANYWHERE or "message" in vars(error) or _is_of_hooks(error):
            by_code[error.error_code].append(error)
    if set(by_code) != set(REMEDIES):
        raise LookupError(f"remedies and errors differ: {sorted(set(by_code) ^ set(REMEDIES))}")
    parts = [_INTRODUCTION]
    for code in sorted(by_code):
        parts.append(f"## {code}\n\n{REMEDIES[code]}\n\n| Status | Text | When | Returned by |\n|---|---|---|---|")
        errors = sorted(
            by_code[code], key=lambda error: (error.status, str(descriptions.instantiate(error)), error.__name__)
        )
        parts += [_line(error, returned_by(error)) for error in errors]
        parts.append("")
    parts.append(_OAUTH.rstrip("\n"))
    oauth = [error for error in places if issubclass(error, OAuthError)]
    parts += sorted(f"| {_oauth_error(error)} | {returned_by(error)} |" for error in oauth)
    return "\n".join(parts) + "\n"


def _is_of_hooks(error: Kind) -> bool:
    """True for an outcome of a call of a hook, which ends any request that asks the hook."""
    return error.__module__ == "hooks.errors"


def _subclasses(parent: type[ApiError]) -> Iterator[type[ApiError]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)


def _line(error: type[ApiError], places: str) -> str:
    instance = descriptions.instantiate(error)
    hint = f"Hint: {instance.hint}" if instance.hint else ""
    cells = (
        error.status,
        _escape(instance.message),
        _escape(" ".join(filter(None, [descriptions.describe_condition(error), hint]))),
        places,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _oauth_error(error: Kind) -> str:
    if error is OAuthError:
        return "the fault of an ID token"
    instance = descriptions.instantiate(error)
    assert isinstance(instance, OAuthError)  # noqa: S101  (only these are listed)
    return f"`{instance.error}`: {_escape(instance.description)}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "&#123;").replace("<", "&lt;")

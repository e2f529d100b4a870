"""Converts properties with the names of PyIceberg and the Java client to options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalogclient._options import RestCatalogOptions, RetryPolicy, Timeout
from catalogclient.auth._base import AuthManager
from catalogclient.auth._config import AuthConfig
from catalogclient.auth._oauth2 import OAuth2ClientCredentials
from catalogclient.auth._sigv4 import SigV4Auth
from catalogclient.errors import InvalidArgumentError

_HEADER = "header."
_DELEGATION = "x-iceberg-access-delegation"


def options(properties: Mapping[str, str]) -> RestCatalogOptions:
    """Convert `properties` to options. Raises InvalidArgumentError for invalid values."""
    if not properties.get("uri"):
        raise InvalidArgumentError("the property uri is required")
    fields = {name.removeprefix(_HEADER): value for name, value in properties.items() if name.startswith(_HEADER)}
    delegation = [value for name, value in fields.items() if name.lower() == _DELEGATION]
    arguments: dict[str, Any] = {
        "base_url": properties["uri"],
        "warehouse": properties.get("warehouse"),
        "prefix": properties.get("prefix"),
        "auth": _auth(properties),
        "headers": {name: value for name, value in fields.items() if name.lower() != _DELEGATION},
        "access_delegation": [value.strip() for value in delegation[-1].split(",")] if any(delegation) else None,
        "namespace_separator": properties.get("namespace-separator"),
        "config_mode": "always",
        "properties": dict(properties),
        "timeout": Timeout(
            connect=_seconds(properties, "rest.client.connection-timeout-ms", Timeout().connect),
            read=_seconds(properties, "rest.client.socket-timeout-ms", Timeout().read),
        ),
        "verify": properties.get("ssl.cabundle", True),
        "cert": _certificate(properties),
    }
    if "rest.client.max-retries" in properties:
        arguments["retry"] = RetryPolicy(max_attempts=_number(properties, "rest.client.max-retries") + 1)
    return RestCatalogOptions(**arguments)


def _auth(properties: Mapping[str, str]) -> AuthConfig | AuthManager | None:
    if properties.get("rest.sigv4-enabled", "").lower() == "true":
        return SigV4Auth(
            properties.get("rest.signing-region") or properties.get("client.region") or "",
            service=properties.get("rest.signing-name", "execute-api"),
            access_key=properties.get("client.access-key-id"),
            secret_key=properties.get("client.secret-access-key"),
            session_token=properties.get("client.session-token"),
        )
    if properties.get("token"):
        return {"type": "bearer", "token": properties["token"]}
    if properties.get("credential"):
        identity, colon, secret = properties["credential"].partition(":")
        return OAuth2ClientCredentials(
            identity if colon else None,
            secret if colon else identity,
            token_url=properties.get("oauth2-server-uri"),
            scope=properties.get("scope", "catalog"),
            audience=properties.get("audience"),
            resource=properties.get("resource"),
        )
    return None


def _certificate(properties: Mapping[str, str]) -> str | tuple[str, str] | None:
    certificate, key = properties.get("ssl.client.cert"), properties.get("ssl.client.key")
    return (certificate, key) if certificate and key else certificate


def _seconds(properties: Mapping[str, str], name: str, default: float | None) -> float | None:
    return _number(properties, name) / 1000 if name in properties else default


def _number(properties: Mapping[str, str], name: str) -> int:
    text = str(properties[name])
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise InvalidArgumentError(f"the property {name} must be an integer")
    return int(text)

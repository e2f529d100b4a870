"""Choosing among vended credentials, and knowing when they end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from catalogclient._results import LoadTableResult, SecretDict, StorageCredential

_EXPIRIES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at")
_AZURE_EXPIRY = "adls.sas-token-expires-at-ms."


def select_credential(credentials: Sequence[StorageCredential], location: str) -> StorageCredential | None:
    """The credential with the longest prefix of `location`, the first of equals; None when no prefix fits."""
    fitting = [each for each in credentials if location.startswith(each.prefix)]
    return max(fitting, key=lambda each: len(each.prefix), default=None)


def effective_config(result: LoadTableResult, location: str | None = None) -> SecretDict:
    """The configuration for files at `location` (by default the table's): the credential's keys over the table's."""
    place = result.metadata.get("location", "") if location is None else location
    chosen = select_credential(result.storage_credentials, place)
    return SecretDict({**result.config, **(chosen.config if chosen else {})})


def for_location(result: LoadTableResult, location: str) -> SecretDict:
    """The same for a location that must be said: what PyIceberg's FileIO takes as properties."""
    return effective_config(result, location)


def expires_at(config: SecretDict) -> datetime | None:
    """When the first of the temporary credentials in `config` ends, as far as the server has said."""
    found = [value for name, value in config.items() if name in _EXPIRIES or name.startswith(_AZURE_EXPIRY)]
    moments = [int(value) for value in found if value.isascii() and value.isdigit() and len(value) < 16]
    return datetime.fromtimestamp(min(moments) / 1000, UTC) if moments else None

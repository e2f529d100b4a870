"""Selects vended storage credentials for a location and reads when they expire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from catalogclient import _guards
from catalogclient._results import LoadTableResult, SecretDict, StorageCredential

_EXPIRIES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at")
_AZURE_EXPIRY = "adls.sas-token-expires-at-ms."
_YEAR_9999 = 253_370_764_800_000
"""Milliseconds since 1970. A later expiry is not representable and means that there is none."""


def select_credential(credentials: Sequence[StorageCredential], location: str) -> StorageCredential | None:
    """Return the credential with the longest `prefix` of `location`, the first one on a tie, or None."""
    matches = [credential for credential in credentials if location.startswith(credential.prefix)]
    return max(matches, key=lambda credential: len(credential.prefix), default=None)


def effective_config(result: LoadTableResult, location: str | None = None) -> SecretDict:
    """Return `result.config` updated by the credential for `location`. The default is the table's location."""
    prefix = (result.metadata.get("location") or "") if location is None else location
    chosen = select_credential(result.storage_credentials, prefix)
    return SecretDict({**result.config, **(chosen.config if chosen else {})})


def for_location(result: LoadTableResult, location: str) -> SecretDict:
    """Return the configuration for files at `location`, for example as properties of PyIceberg's FileIO."""
    return effective_config(result, location)


def expires_at(config: SecretDict) -> datetime | None:
    """Return the earliest expiry of the temporary credentials in `config`, or None if the server sent none."""
    values = [value for name, value in config.items() if name in _EXPIRIES or name.startswith(_AZURE_EXPIRY)]
    moments = [int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 16]
    return datetime.fromtimestamp(min(moments) / 1000, UTC) if moments and min(moments) < _YEAR_9999 else None


_guards.guard_public_functions(globals())

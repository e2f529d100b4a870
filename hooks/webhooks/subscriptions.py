"""The endpoints as each process knows them: their event types, for the recording, and all else for the delivery."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from authsvc import conf
from authsvc.conf import Secret
from authsvc.db.sql import fetch_rows
from authsvc.security import encryption
from authsvc.security.encryption import DecryptionError
from hooks.webhooks import queries

MAX_AGE = 10.0
"""Seconds until another process knows of a change."""

_SELECT = f"""
    SELECT id, url, event_types, secret, CASE WHEN previous_secret_until > now() THEN previous_secret END,
        disabled_at IS NOT NULL, failing_since
    FROM {queries.ENDPOINTS} WHERE deleted_at IS NULL ORDER BY created_at, id"""  # noqa: S608  (own name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEndpoint:
    id: UUID
    url: str = field(repr=False)
    event_types: frozenset[str]
    stored_secrets: tuple[str, ...] = field(repr=False)
    """Encrypted; the current one first."""
    is_disabled: bool
    failing_since: datetime | None

    def secrets(self) -> list[Secret]:
        """The secrets that sign, in the form `v1,whsec_…`. Raises DecryptionError.

        A former one that cannot be read does not sign: an administrator may have replaced it for that reason.
        """
        current, *former = self.stored_secrets
        secrets = [self._read(current)]
        with contextlib.suppress(DecryptionError):
            secrets += map(self._read, former)
        return secrets

    def _read(self, stored: str) -> Secret:
        return Secret(f"v1,{encryption.decrypt(stored, bound_to=self.id)}")

    def receives(self, event_type: str) -> bool:
        return not self.event_types.isdisjoint(("*", event_type, f"{event_type.partition('.')[0]}.*"))


class EndpointCache:
    """The endpoints of this installation, at most `MAX_AGE` seconds old."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._endpoints: tuple[CachedEndpoint, ...] = ()
        self._loaded_at = float("-inf")

    def get(self) -> tuple[CachedEndpoint, ...]:
        """The endpoints. One statement every `MAX_AGE` seconds, else none."""
        if time.monotonic() - self._loaded_at > MAX_AGE:
            self._endpoints = read_endpoints()
            self._loaded_at = time.monotonic()
        return self._endpoints


cache = EndpointCache()


def read_endpoints() -> tuple[CachedEndpoint, ...]:
    return tuple(
        CachedEndpoint(
            id=id_,
            url=url,
            event_types=frozenset(event_types),
            stored_secrets=(secret, previous) if previous else (secret,),
            is_disabled=is_disabled,
            failing_since=failing_since,
        )
        for id_, url, event_types, secret, previous, is_disabled, failing_since in fetch_rows(_SELECT, ())
    )


def is_subscribed(event_type: str) -> bool:
    """True if webhooks are enabled and an active endpoint receives events of the type."""
    if not conf.current().webhooks.enabled:
        return False
    return any(endpoint.receives(event_type) and not endpoint.is_disabled for endpoint in cache.get())

"""Address and abilities of a running catalog server."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from catalogclient import RestCatalog


class Ability(enum.Flag):
    """Abilities that only some servers have."""

    ETAGS = enum.auto()
    """Sends an ETag with a table and answers 304 to it."""
    REPLAY = enum.auto()
    """Answers a repeated idempotency key with the first outcome."""
    PLANNING = enum.auto()
    ASYNC_PLANNING = enum.auto()
    """Plans every scan in the background and hands the files out in plan tasks."""
    REGISTER_VIEW = enum.auto()
    STAGED_CREATE = enum.auto()
    """A staged creation shows no metadata location."""
    HISTORY = enum.auto()
    """Keeps older snapshots in the metadata of a table."""
    CHECKS_PROPERTIES = enum.auto()
    """Rejects a property that is set and removed at once."""
    FILES = enum.auto()
    """Keeps table files where another program can read and write them."""
    CREATES_ONCE = enum.auto()
    """Refuses to create a table or view that exists."""
    ENDPOINTS = enum.auto()
    """Lists its endpoints in the configuration."""
    PAGES = enum.auto()
    """Gives lists in pages."""
    VIEWS = enum.auto()
    TRANSACTIONS = enum.auto()
    REGISTER_TABLE = enum.auto()
    STAGES = enum.auto()
    """Prepares tables that its client commits."""
    REPORTS = enum.auto()
    """Takes reports of metrics."""
    WHOLE = PAGES | VIEWS | TRANSACTIONS | REGISTER_TABLE | STAGES | REPORTS
    """Abilities of a complete catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogServer:
    name: str
    base_url: str
    abilities: Ability
    warehouse: str | None = None
    prefix: str | None = None
    """Prefix, if the configuration does not contain it."""
    configured_prefix: str = ""
    """Prefix in the configuration, if it is not the warehouse."""
    namespace: str = ""
    """Shared namespace, if new namespaces cannot have tables."""
    token: str = field(default="", repr=False)
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of PyIceberg for the storage of table files, if it needs any."""

    def can(self, ability: Ability) -> bool:
        return ability in self.abilities

    def need(self, ability: Ability) -> None:
        """Skip the test if the server lacks the ability."""
        if not self.can(ability):
            pytest.skip(f"{self.name} cannot do it: {ability.name}")

    def auth(self) -> Mapping[str, str] | None:
        if self.token:
            return {"type": "bearer", "token": self.token}
        if not self.client_id:
            return None
        return {
            "type": "oauth2",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "token_url": f"{self.base_url}/v1/oauth/tokens",
        }

    def connect(self, **options: Any) -> RestCatalog:
        """Return a catalog of this server. The caller closes it."""
        usual = {"warehouse": self.warehouse, "prefix": self.prefix, "auth": self.auth()}
        return RestCatalog(self.base_url, **{**usual, **options})

    def pyiceberg_properties(self) -> dict[str, str]:
        """Return the properties for `load_catalog` of PyIceberg, with storage keys if the server has storage."""
        properties = {"type": "rest", "uri": self.base_url}
        if self.warehouse:
            properties["warehouse"] = self.warehouse
        if self.prefix:
            properties["prefix"] = self.prefix
        if self.token:
            properties["token"] = self.token
        if self.client_id:
            properties["credential"] = f"{self.client_id}:{self.client_secret}"
            properties["oauth2-server-uri"] = f"{self.base_url}/v1/oauth/tokens"
        return properties | dict(self.storage)

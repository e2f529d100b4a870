"""What is held about a person: the contract by which every app shows its share of it and lets go of it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Model, QuerySet

from authsvc import plugins
from authsvc.security import crypto

_KEY_LABEL = "personal_data.pseudonym"
_AT_ONCE = 500

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A user by id, with the addresses and numbers that rows without an id know them by; none once they are deleted."""

    id: UUID
    addresses: frozenset[str] = field(default=frozenset(), repr=False)


class Keeper(Protocol):
    """Keeps rows about people (PERSONAL_DATA)."""

    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        """Each table's name, without namespace, with its rows about the person, read as they are asked for.

        A row is column → value. Nothing in it lets its reader act as the person: no hash, key, code or token.
        """

    def forget(self, person: Person) -> Mapping[str, int]:
        """Delete what would outlive the deletion of the user's row, the audit trail apart; table → rows deleted.

        Joins the caller's transaction.
        """


def keepers() -> list[Keeper]:
    return plugins.in_order("PERSONAL_DATA")


def pseudonym(user_id: UUID) -> UUID:
    """What stands for an erased user: always the same, and nobody without the service's secret can tell for whom."""
    digest = hmac.digest(crypto.derive_key(_KEY_LABEL), user_id.bytes, hashlib.sha256)
    return UUID(bytes=digest[:16], version=5)


def shown(rows: QuerySet[Any], *, without: Collection[str] = ()) -> Iterator[Row]:
    """Rows as column → value, some hundred at a time, but for the columns that are nobody's to see."""
    names = [column.attname for column in _columns(rows.model) if column.attname not in without]
    return rows.values(*names).iterator(chunk_size=_AT_ONCE)


def _columns(model: type[Model]) -> Iterable[Any]:
    return model._meta.concrete_fields

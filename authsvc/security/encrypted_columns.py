"""The columns that `encryption` protects, as a whole: under which keys they are, and all put under the present one."""

# ruff: noqa: S608  (names of our own; every value is a parameter)

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from django.apps import apps
from django.db import transaction

from authsvc import conf
from authsvc.db.sql import fetch_row, fetch_rows
from authsvc.security import encryption

_AT_ONCE = 500
_LOOKED_AT = 10_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column whose values are bound to the `id` of their row."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReencryptionResult:
    done: int
    unreadable: int
    """Left as they are: no configured key opens them."""


def columns() -> list[Column]:
    """The columns that models list in `encrypted_columns`."""
    return [
        Column(table=model._meta.db_table, name=name)
        for model in apps.get_models()
        for name in getattr(model, "encrypted_columns", ())
    ]


def warn_about_unknown_keys() -> None:
    """Log each key that stored values need and that is not configured, as far as a look at some of them shows."""
    known = conf.current().database.decryption_keys.keys()
    for column in columns():
        for key_id in sorted(_key_ids(column) - known):
            logger.warning(
                "values are encrypted with a key that is not configured",
                extra={"column": str(column), "key_id": key_id},
            )


def reencrypt(column: Column, *, note: Callable[[int], None]) -> ReencryptionResult:
    """Put every value under the present key that is plain or under another; encryption must be on.

    In batches that end by themselves, so that it can be interrupted and run again. A value that somebody changes in
    the meantime is left as they leave it. `note` is told how many rows were looked at.
    """
    table = column.table
    done = unreadable = 0
    last = UUID(int=0)
    while found := fetch_rows(
        f"SELECT id, {column.name} FROM {table} WHERE id > %s ORDER BY id LIMIT {_AT_ONCE}", (last,)
    ):
        changed: list[tuple[UUID, str, str]] = []
        for row_id, stored in found:
            if not stored or not encryption.needs_reencryption(stored):
                continue
            try:
                changed.append(
                    (row_id, stored, encryption.encrypt(encryption.decrypt(stored, bound_to=row_id), bound_to=row_id))
                )
            except encryption.DecryptionError:
                unreadable += 1
        done += _replace(column, changed)
        note(len(found))
        last = found[-1][0]
    return ReencryptionResult(done=done, unreadable=unreadable)


def _replace(column: Column, changed: Collection[tuple[UUID, str, str]]) -> int:
    if not changed:
        return 0
    ids, before, after = (list(values) for values in zip(*changed, strict=True))
    with transaction.atomic(durable=True):
        return len(
            fetch_rows(
                f"UPDATE {column.table} t SET {column.name} = c.after"
                " FROM unnest(%s::uuid[], %s::text[], %s::text[]) c (id, before, after)"
                f" WHERE t.id = c.id AND t.{column.name} = c.before RETURNING t.id",
                (ids, before, after),
            )
        )


def _key_ids(column: Column) -> set[str]:
    """The keys of some values: of all where the table is small."""
    table = column.table
    estimate = fetch_row("SELECT reltuples FROM pg_class WHERE oid = to_regclass(quote_ident(%s))", (table,))
    percent = min(100.0, 100 * _LOOKED_AT / max(estimate[0] if estimate else 0, 1))
    found = fetch_rows(
        f"SELECT {column.name} FROM {table} TABLESAMPLE system (%s) WHERE starts_with({column.name}, '{{')", (percent,)
    )
    return {key_id for (stored,) in found if (key_id := encryption.key_id(stored))}

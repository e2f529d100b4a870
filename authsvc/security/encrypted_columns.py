"""Re-encrypts the encrypted columns with the current key, and reports keys that are missing."""

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

_BATCH_SIZE = 500
_SAMPLE_ROWS = 10_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedColumn:
    """A column whose values are encrypted for the `id` of their row."""

    table: str
    name: str
    always: bool = False
    """The column is encrypted also if encryption is disabled."""

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReencryptionResult:
    reencrypted: int
    unreadable: int
    """Values left unchanged, because no configured key decrypts them."""


def columns() -> list[EncryptedColumn]:
    """The columns that models list in `encrypted_columns`; those in `always_encrypted` need no setting."""
    return [
        EncryptedColumn(table=model._meta.db_table, name=name, always=name in getattr(model, "always_encrypted", ()))
        for model in apps.get_models()
        for name in getattr(model, "encrypted_columns", ())
    ]


def unknown_keys() -> list[tuple[EncryptedColumn, str]]:
    """The key ids that a sample of the stored values uses and that are not configured, by column."""
    known = {*conf.current().database.decryption_keys, encryption.DERIVED_KEY_ID}
    return [(column, key_id) for column in columns() for key_id in sorted(_key_ids(column) - known)]


def warn_about_unknown_keys() -> None:
    """Log each of `unknown_keys`."""
    for column, key_id in unknown_keys():
        logger.warning(
            "values are encrypted with a key that is not configured", extra={"column": str(column), "key_id": key_id}
        )


def reencrypt(column: EncryptedColumn, *, report_progress: Callable[[int], None]) -> ReencryptionResult:
    """Encrypt every value that is unencrypted or uses another key with the current key.

    Without encryption this changes columns that are always encrypted only.
    Works in batches with a transaction each, so it can be interrupted and repeated. A value that changes concurrently
    is left unchanged. `report_progress` receives the number of rows of each batch.
    """
    table = column.table
    reencrypted = unreadable = 0
    last_id = UUID(int=0)
    while rows := fetch_rows(
        f"SELECT id, {column.name} FROM {table} WHERE id > %s ORDER BY id LIMIT {_BATCH_SIZE}", (last_id,)
    ):
        replacements: list[tuple[UUID, str, str]] = []
        for row_id, stored in rows:
            if not stored or not encryption.needs_reencryption(stored, always=column.always):
                continue
            try:
                text = encryption.decrypt(stored, bound_to=row_id)
                replacements.append((row_id, stored, encryption.encrypt(text, bound_to=row_id, always=column.always)))
            except encryption.DecryptionError:
                unreadable += 1
        reencrypted += _replace(column, replacements)
        report_progress(len(rows))
        last_id = rows[-1][0]
    return ReencryptionResult(reencrypted=reencrypted, unreadable=unreadable)


def _replace(column: EncryptedColumn, replacements: Collection[tuple[UUID, str, str]]) -> int:
    if not replacements:
        return 0
    ids, old_values, new_values = (list(values) for values in zip(*replacements, strict=True))
    with transaction.atomic(durable=True):
        return len(
            fetch_rows(
                f"UPDATE {column.table} t SET {column.name} = c.after"
                " FROM unnest(%s::uuid[], %s::text[], %s::text[]) c (id, before, after)"
                f" WHERE t.id = c.id AND t.{column.name} = c.before RETURNING t.id",
                (ids, old_values, new_values),
            )
        )


def _key_ids(column: EncryptedColumn) -> set[str]:
    """The key ids of a sample of the values; of all values of a small table."""
    table = column.table
    estimate = fetch_row("SELECT reltuples FROM pg_class WHERE oid = to_regclass(quote_ident(%s))", (table,))
    percent = min(100.0, 100 * _SAMPLE_ROWS / max(estimate[0] if estimate else 0, 1))
    rows = fetch_rows(
        f"SELECT {column.name} FROM {table} TABLESAMPLE system (%s) WHERE starts_with({column.name}, '{{')", (percent,)
    )
    return {key_id for (stored,) in rows if (key_id := encryption.key_id(stored))}

"""Limits of metadata: the JSON that clients, administrators and providers store in an account.

Metadata is part of every access token and of every response with the user, so its size is that of the stored text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from accounts import errors
from accounts.users.records import UserRecord
from authsvc import conf

_USER, _APP = "User metadata", "App metadata"


def check_user_metadata(values: Mapping[str, Any]) -> None:
    """Raises MetadataTooLarge for values that cannot become user metadata or the data of an identity."""
    _check(_USER, json_size(values), limit=conf.current().metadata.max_user_bytes)


def check_app_metadata(values: Mapping[str, Any]) -> None:
    """Raises MetadataTooLarge for values that cannot become app metadata."""
    _check(_APP, json_size(values), limit=conf.current().metadata.max_app_bytes)


def check_change(after: UserRecord, *, before: UserRecord) -> None:
    """Raises MetadataTooLarge if a merge has made metadata larger than permitted.

    Call it in the transaction of the merge. Metadata that was too large before may shrink.
    """
    limits = conf.current().metadata
    _check(_USER, _grown(after.user_metadata_json, before.user_metadata_json), limit=limits.max_user_bytes)
    _check(_APP, _grown(after.app_metadata_json, before.app_metadata_json), limit=limits.max_app_bytes)


def json_size(value: object) -> int:
    """The bytes of a JSON value in the text form of PostgreSQL's jsonb, which writes numbers without exponent."""
    return len(json.dumps(value, ensure_ascii=False).encode()) + _expanded_digits(value)


def _check(name: str, size: int, *, limit: int) -> None:
    if size > limit:
        raise errors.MetadataTooLarge(name, limit)


def _grown(after: str, before: str) -> int:
    """The size of `after` in bytes, 0 if it is not longer than `before`."""
    return 0 if len(after) <= len(before) else len(after.encode())


def _expanded_digits(value: object) -> int:
    """The digits that numbers in `value` gain without their exponents: 1e300 has 301."""
    if isinstance(value, float):
        text = repr(value)
        return len(format(Decimal(text), "f")) - len(text) if "e" in text else 0
    if isinstance(value, Mapping):
        return sum(_expanded_digits(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return sum(_expanded_digits(inner) for inner in value)
    return 0

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
    _check_values(_USER, values, limit=conf.current().metadata.max_user_bytes)


def check_app_metadata(values: Mapping[str, Any]) -> None:
    """Raises MetadataTooLarge for values that cannot become app metadata."""
    _check_values(_APP, values, limit=conf.current().metadata.max_app_bytes)


def check_assigned(
    *, user_metadata: Mapping[str, Any] | None, app_metadata: Mapping[str, Any] | None, before: UserRecord
) -> None:
    """Raises MetadataTooLarge for values that are too large whatever they are merged with.

    Call it before the merge, which would store them first. `check_change` checks the result of the merge.
    """
    limits = conf.current().metadata
    _check_values(
        _USER, _assigned(user_metadata), limit=max(limits.max_user_bytes, len(before.user_metadata_json.encode()))
    )
    _check_values(
        _APP, _assigned(app_metadata), limit=max(limits.max_app_bytes, len(before.app_metadata_json.encode()))
    )


def check_change(after: UserRecord, *, before: UserRecord) -> None:
    """Raises MetadataTooLarge if a merge has made metadata larger than permitted.

    Call it in the transaction of the merge. Metadata that was too large before may shrink.
    """
    limits = conf.current().metadata
    _check(_USER, _grown(after.user_metadata_json, before.user_metadata_json), limit=limits.max_user_bytes)
    _check(_APP, _grown(after.app_metadata_json, before.app_metadata_json), limit=limits.max_app_bytes)


def _assigned(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values that a merge stores; null deletes a key."""
    return {key: value for key, value in (values or {}).items() if value is not None}


def _check_values(name: str, values: Mapping[str, Any], *, limit: int) -> None:
    """Check the bytes of the values in the text form of PostgreSQL's jsonb, which writes numbers without exponent."""
    size = len(json.dumps(values, ensure_ascii=False).encode())
    if size <= limit:  # larger values are refused without a look at each of their numbers
        size += _expanded_digits(values)
    _check(name, size, limit=limit)


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

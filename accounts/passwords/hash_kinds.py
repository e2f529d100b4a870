"""Lists the kinds of password hashes in the database, so that every refused password costs the same.

A kind is an algorithm with its costs, such as `bcrypt 10`. Imported hashes are more expensive or cheaper than those of
this service, so the time of a refusal would tell which accounts exist. A table lists the stored kinds. Imports and
administrators add kinds; a daily survey of the accounts removes those that no account has any longer. Each process
remembers the kinds for a minute, and reads them after a refusal, so that a successful sign-in reads nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from accounts.models import PasswordHashKind
from authsvc.db import advisory_locks
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.security import encryption

SURVEY_INTERVAL = timedelta(days=1)
_SURVEYED = ""
"""The row with this kind has the time of the last survey."""
_REMEMBERED_SECONDS = 60.0
_BATCH_SIZE = 500

_FORMATS = (
    (re.compile(r"\$(argon2id?)\$v=19\$(?P<cost>m=\d+,t=\d+,p=\d+)\$"), ""),
    (re.compile(r"\$2[a-z]?\$(?P<cost>\d\d)\$"), "bcrypt"),
    (re.compile(r"\$fbscrypt\$v=1,(?P<cost>n=\d+,r=\d+,p=\d+)"), "fbscrypt"),
)
_PREFIX = r"^\$(?:2[a-z]?\$\d\d\$|argon2id?\$v=19\$m=\d+,t=\d+,p=\d+\$|fbscrypt\$v=1,n=\d+,r=\d+,p=\d+)"
"""The part of a hash that states its kind, as a regular expression of PostgreSQL."""


class HashKind(NamedTuple):
    """The algorithm of a hash, and its costs as the hash states them."""

    algorithm: str
    costs: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.costs}"


class _Memory:
    """The kinds as this process knows them."""

    def __init__(self) -> None:
        self.kinds: frozenset[HashKind] = frozenset()
        self.read_at: float | None = None
        self.lock = threading.Lock()


_memory = _Memory()


def kind_of(stored: str) -> HashKind | None:
    """The kind of a decrypted hash, or of its beginning; None for an unknown format."""
    for form, name in _FORMATS:
        if match := form.match(stored):
            return HashKind(name or match[1], match["cost"])
    return None


def remembered() -> frozenset[HashKind]:
    """The stored kinds. One statement at the first call in a process, none later."""
    return _memory.kinds if _memory.read_at is not None else _read()


def refresh() -> None:
    """Read the stored kinds again if they were read more than a minute ago, for later calls of `remembered`."""
    if _memory.read_at is None or time.monotonic() > _memory.read_at + _REMEMBERED_SECONDS:
        _read()


def remember(kinds: Iterable[HashKind]) -> None:
    """Replace the kinds that this process knows."""
    with _memory.lock:
        _memory.kinds, _memory.read_at = frozenset(kinds), time.monotonic()


def add(kind: HashKind) -> None:
    """List a kind. One statement; joins the caller's transaction."""
    PasswordHashKind.objects.bulk_create(
        [PasswordHashKind(kind=str(kind), seen_at=timezone.now())], ignore_conflicts=True
    )
    remember({*_memory.kinds, kind})


def survey(*, at: datetime, is_due: bool = False) -> None:
    """List the kinds of all accounts, and remove those that no account has any longer.

    Does nothing if the last survey is younger than a day, unless `is_due`, or while another process surveys.
    """
    with advisory_locks.try_lock(f"hash kinds of {namespaced('users')}") as has_lock:
        if not has_lock:
            return
        # Read while the lock is held, because another process may just have finished its survey.
        last = PasswordHashKind.objects.filter(kind=_SURVEYED).values_list("seen_at", flat=True).first()
        if not is_due and last is not None and at < last + SURVEY_INTERVAL:
            return
        # Every new kind is listed when it is stored. So a survey after the first one may stop once it has found each.
        listed = _read() if last is not None and not is_due else None
        found = _find(listed)
        with transaction.atomic(durable=True):
            outdated = PasswordHashKind.objects.exclude(kind__in=[str(kind) for kind in found])
            outdated.filter(seen_at__lt=at).delete()
            PasswordHashKind.objects.bulk_create(
                [PasswordHashKind(kind=kind, seen_at=at) for kind in (_SURVEYED, *map(str, found))],
                update_conflicts=True,
                unique_fields=["kind"],
                update_fields=["seen_at"],
            )
    _read()


def _find(listed: frozenset[HashKind] | None) -> set[HashKind]:
    """The kinds of the accounts; encrypted hashes are read until each kind of `listed` was found, all if it is None."""
    rows = fetch_rows(f"SELECT DISTINCT substring(encrypted_password FROM %s) FROM {namespaced('users')}", (_PREFIX,))  # noqa: S608  (own name)
    found = {kind for (prefix,) in rows if prefix and (kind := kind_of(prefix))}
    for id_, encrypted in _encrypted_hashes():
        if listed is not None and listed <= found:
            break
        try:
            kind = kind_of(encryption.decrypt(encrypted, bound_to=id_))
        except encryption.DecryptionError:
            continue
        if kind is not None:
            found.add(kind)
    return found


def _encrypted_hashes() -> Iterator[tuple[UUID, str]]:
    last = UUID(int=0)
    sql = (
        f"SELECT id, encrypted_password FROM {namespaced('users')} WHERE id > %s AND encrypted_password LIKE '{{%%'"  # noqa: S608  (own name)
        f" ORDER BY id LIMIT {_BATCH_SIZE}"
    )
    while batch := fetch_rows(sql, (last,)):
        yield from batch
        last = batch[-1][0]


def _read() -> frozenset[HashKind]:
    stored = PasswordHashKind.objects.exclude(kind=_SURVEYED).values_list("kind", flat=True)
    remember(HashKind(*kind.split(" ", 1)) for kind in stored)
    return _memory.kinds

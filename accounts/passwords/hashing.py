"""Hashes and verifies passwords: bounded in concurrency, and as slow for unknown accounts as for known ones.

Hashing takes tens of milliseconds and 19 MiB. Call these functions outside a transaction.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from functools import lru_cache
from threading import BoundedSemaphore

from django.contrib.auth.hashers import BasePasswordHasher, get_hasher

from accounts import errors
from accounts.passwords import hashers
from accounts.users.records import UserRecord
from authsvc.errors import UnexpectedFailure
from authsvc.observability import metrics
from authsvc.security import encryption

MAX_BYTES = 72
"""Maximum length of a password in bytes of UTF-8. bcrypt ignores the rest."""

# More concurrent hashes than cores would slow each other down and use more memory.
_SLOTS = os.cpu_count() or 1
_semaphore = BoundedSemaphore(_SLOTS)


def hash_password(password: str) -> str:
    """The hash to store. Raises PasswordTooLong."""
    check_length(password)
    with _hashing_slot():
        return hashers.encode(password)


def unusable_hash() -> str:
    """A hash that no password matches, made without hashing one."""
    return hashers.random_hash()


def verify_password(password: str, stored: str | None) -> bool:
    """True when `password` matches the stored hash.

    Without a hash (no account, or one without a password) it takes as long as a wrong password. A password that fails
    against an imported hash is also compared with a hash of our own, so that cheaper algorithms are not noticeable.
    """
    is_valid = len(password.encode()) <= MAX_BYTES
    with _hashing_slot():
        if stored and is_valid:
            if hashers.verify(password, stored):
                return True
            if not hashers.needs_rehash(stored):
                return False
        hashers.verify(password if is_valid else "", _comparison_hash(get_hasher()))
        return False


def check_length(password: str) -> None:
    """Raises PasswordTooLong."""
    if len(password.encode()) > MAX_BYTES:
        raise errors.PasswordTooLong


def stored_hash(user: UserRecord) -> str | None:
    """The user's decrypted password hash, None without a password. Raises UnexpectedFailure."""
    if not user.password_hash:
        return None
    try:
        return encryption.decrypt(user.password_hash, bound_to=user.id)
    except encryption.DecryptionError as error:
        raise UnexpectedFailure("Unable to decrypt the password hash of the user") from error


@contextlib.contextmanager
def _hashing_slot() -> Iterator[None]:
    """Wait until fewer than `_SLOTS` threads are hashing."""
    requested_at = time.perf_counter()
    metrics.HASH_POOL_SLOTS.set(_SLOTS)
    metrics.HASH_POOL_WAITING.inc()
    try:
        _semaphore.acquire()
    finally:
        metrics.HASH_POOL_WAITING.dec()
    started_at = time.perf_counter()
    metrics.HASH_WAIT_SECONDS.observe(started_at - requested_at)
    metrics.HASH_POOL_RUNNING.inc()
    try:
        yield
    finally:
        _semaphore.release()
        metrics.HASH_POOL_RUNNING.dec()
        metrics.HASH_SECONDS.observe(time.perf_counter() - started_at)


@lru_cache(maxsize=1)
def _comparison_hash(hasher: BasePasswordHasher) -> str:
    """The hash to compare with when there is no stored one, made by the current hasher."""
    return hashers.encode(hasher.salt())

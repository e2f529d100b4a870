"""What a password must be like, and hashing that is bounded in number and costs the same whether an account exists.

Hashing takes tens of milliseconds and megabytes: never call it with a transaction open.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import BoundedSemaphore

from django.contrib.auth.hashers import BasePasswordHasher, get_hasher

from accounts import errors
from accounts.passwords import breaches, hashers
from authsvc import conf
from authsvc.observability import metrics

MAX_BYTES = 72
"""Bytes of UTF-8; bcrypt sees no more."""
_MIN_LENGTH = 6

# More hashes at once than cores would only make each slower, and a burst of them would use up the memory.
_PLACES = os.cpu_count() or 1
_hashing = BoundedSemaphore(_PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """Why a password is weak: words for programs, sentences for people."""

    reasons: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def message(self) -> str:
        return " ".join(self.sentences)


def validate_password(password: str) -> None:
    """Raises PasswordTooLong, BreachLookupFailed or WeakPassword.

    May ask the network: never to be called with a transaction open.
    """
    check_length(password)
    weakness = _weakness(password, is_breached=breaches.is_breached(password))
    if weakness is not None:
        raise errors.WeakPassword(weakness.reasons, weakness.sentences)


def find_weakness(password: str) -> Weakness | None:
    """Where a password that is in use falls short of the present settings; None when it does not.

    Takes little time and never fails: what the network does not say at once is left out. Never to be called with a
    transaction open.
    """
    return _weakness(password, is_breached=breaches.is_known_breached(password))


def _weakness(password: str, *, is_breached: bool) -> Weakness | None:
    policy = conf.current().passwords
    found: dict[str, str] = {}
    shortest = max(policy.min_length, _MIN_LENGTH)
    if len(password.encode()) < shortest:
        found["length"] = f"Password should be at least {shortest} characters."
    if any(set(characters).isdisjoint(password) for characters in policy.required_characters):
        sets = ", ".join(policy.required_characters)
        found["characters"] = f"Password should contain at least one character of each: {sets}."
    if is_breached:
        found["pwned"] = "Password is known to be weak and easy to guess, please choose a different one."
    return Weakness(reasons=tuple(found), sentences=tuple(found.values())) if found else None


def hash(password: str) -> str:
    """The text to store. Raises PasswordTooLong."""
    check_length(password)
    with _turn():
        return hashers.encode(password)


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait for a place among those who hash, and keep it."""
    asked = time.perf_counter()
    metrics.HASH_POOL_PLACES.set(_PLACES)
    metrics.HASH_POOL_WAITING.inc()
    try:
        _hashing.acquire()
    finally:
        metrics.HASH_POOL_WAITING.dec()
    began = time.perf_counter()
    metrics.HASH_WAIT_SECONDS.observe(began - asked)
    metrics.HASH_POOL_RUNNING.inc()
    try:
        yield
    finally:
        _hashing.release()
        metrics.HASH_POOL_RUNNING.dec()
        metrics.HASH_SECONDS.observe(time.perf_counter() - began)


def undisclosed() -> str:
    """A hash that belongs to no password anybody knows, made without hashing one."""
    return hashers.random_hash()


def matches(password: str, stored: str | None) -> bool:
    """Whether `password` is the one of the stored hash.

    Without a hash (no account, or one without password) the answer costs what a wrong password costs. One that fails
    against an imported hash is also compared with a hash of our own, so that a cheap kind does not stand out.
    """
    bearable = len(password.encode()) <= MAX_BYTES
    with _turn():
        if stored and bearable:
            if hashers.verify(password, stored):
                return True
            if not hashers.needs_rehash(stored):
                return False
        hashers.verify(password if bearable else "", _nobodys_hash(get_hasher()))
        return False


@lru_cache(maxsize=1)
def _nobodys_hash(hasher: BasePasswordHasher) -> str:
    """A hash by the present hasher to compare with where there is none."""
    return hashers.encode(hasher.salt())


def check_length(password: str) -> None:
    if len(password.encode()) > MAX_BYTES:
        raise errors.PasswordTooLong

"""Hashes and verifies passwords: bounded in concurrency, and as slow for unknown accounts as for known ones.

New hashes are Argon2id; hashes of imported accounts are verified in their own formats. Django's hashers
expect the algorithm's name in front of a hash, which is added and removed only here. New hashes use the first hasher of
Django's PASSWORD_HASHERS; verifying needs no setting.

Hashing takes tens of milliseconds and 19 MiB. Hash and verify passwords outside a transaction.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Collection, Iterator
from functools import lru_cache
from threading import BoundedSemaphore
from typing import Any

import bcrypt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from django.contrib.auth.hashers import (
    Argon2PasswordHasher,
    BasePasswordHasher,
    BCryptPasswordHasher,
    get_hasher,
    mask_hash,
)

from accounts import errors
from accounts.passwords import hash_kinds
from accounts.passwords.hash_kinds import HashKind
from accounts.users.records import UserRecord
from authsvc.errors import UnexpectedFailure
from authsvc.observability import metrics
from authsvc.security import encryption
from authsvc.security.hash_limits import (
    MAX_ARGON2_MEMORY,
    MAX_ARGON2_TIME,
    MAX_ARGON2_WORK,
    MAX_BCRYPT_COST,
    MAX_SCRYPT_WORK,
)

NO_PASSWORD = "!"
"""Stored in place of a hash while an account is unconfirmed and its sign-ups name no password, or different ones."""

MAX_BYTES = 72
"""Maximum length of a password in bytes of UTF-8. bcrypt ignores the rest."""

# More concurrent hashes than cores would slow each other down and use more memory.
_SLOTS = os.cpu_count() or 1
_semaphore = BoundedSemaphore(_SLOTS)

_UNPADDED = r"[A-Za-z0-9+/]+"
_PADDED = r"[A-Za-z0-9+/]+={0,2}"


class Argon2id(Argon2PasswordHasher):
    """Argon2id (RFC 9106) with OWASP's minimum costs; verifies Argon2i and Argon2id up to maximum costs."""

    memory_cost = 19_456
    time_cost = 2
    parallelism = 1

    _form = re.compile(
        rf"argon2\$argon2(id?)\$v=19\$m=(\d{{1,7}}),t=(\d{{1,2}}),p=(\d{{1,2}})\${_UNPADDED}\${_UNPADDED}"
    )
    _max_costs = (MAX_ARGON2_MEMORY, MAX_ARGON2_TIME, 16)

    def accepts(self, encoded: str) -> bool:
        form = self._form.fullmatch(encoded)
        if form is None:
            return False
        costs = [int(cost) for cost in form.groups()[1:]]
        is_bounded = all(cost <= maximum for cost, maximum in zip(costs, self._max_costs, strict=True))
        return is_bounded and costs[0] * costs[1] <= MAX_ARGON2_WORK

    def verify(self, password: str, encoded: str) -> bool:
        return self.accepts(encoded) and super().verify(password, encoded)

    def must_update(self, encoded: str) -> bool:
        """Depends only on algorithm and costs, because an imported salt is as good as our own."""
        form = self._form.fullmatch(encoded)
        costs = str(self.memory_cost), str(self.time_cost), str(self.parallelism)
        return form is None or form.groups() != ("id", *costs)


class Bcrypt(BCryptPasswordHasher):
    """bcrypt, for imported accounts only; never used for new hashes."""

    # All minor versions compute the same hash for passwords up to 72 bytes; the library does not know all of them.
    _form = re.compile(r"bcrypt\$\$2[a-z]?(\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53})")

    def accepts(self, encoded: str) -> bool:
        form = self._form.fullmatch(encoded)
        return form is not None and int(form[1][1:3]) <= MAX_BCRYPT_COST

    def verify(self, password: str, encoded: str) -> bool:
        form = self._form.fullmatch(encoded) if self.accepts(encoded) else None
        # bcrypt uses 72 bytes; the library refuses longer passwords.
        return form is not None and bcrypt.checkpw(password.encode()[:72], f"$2b{form[1]}".encode())


class FirebaseScrypt(BasePasswordHasher):
    """Firebase's scrypt, for imported accounts only: the derived key encrypts the project's signer key."""

    algorithm = "fbscrypt"
    max_memory = 64 * 1024 * 1024
    """Maximum bytes of memory for one verification; the usual parameters need 16 MiB."""

    _form = re.compile(
        r"fbscrypt\$fbscrypt\$v=1,n=(?P<n>\d{1,2}),r=(?P<r>\d{1,6}),p=(?P<p>\d{1,3})"
        rf"(?:,ss=(?P<ss>{_PADDED}))?(?:,sk=(?P<sk>{_PADDED}))?\$(?P<salt>{_PADDED})\$(?P<hash>{_PADDED})"
    )

    def accepts(self, encoded: str) -> bool:
        return self._read(encoded) is not None

    def verify(self, password: str, encoded: str) -> bool:
        stored = self._read(encoded)
        if stored is None:
            return False
        (n, r, p), (salt, separator, signer_key, expected) = stored
        # The library counts two more blocks than the algorithm needs.
        max_memory = self.max_memory + 256 * r
        key = hashlib.scrypt(password.encode(), salt=salt + separator, n=1 << n, r=r, p=p, maxmem=max_memory, dklen=32)
        encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        return hmac.compare_digest(encryptor.update(signer_key) + encryptor.finalize(), expected)

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        return {"algorithm": self.algorithm, "hash": mask_hash(encoded.rpartition("$")[2])}

    def must_update(self, encoded: str) -> bool:
        return True

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Does nothing: `verify_password` equalises the time that imported hashes take."""

    def _read(self, encoded: str) -> tuple[tuple[int, int, int], tuple[bytes, bytes, bytes, bytes]] | None:
        """(n, r, p) and (salt, separator, signer key, hash); None when malformed or too expensive."""
        form = self._form.fullmatch(encoded)
        if form is None:
            return None
        n, r, p = (int(form[name]) for name in "nrp")
        # RFC 7914 §2: N is below 2^(16 r).
        if not (0 < n < 16 * r and 0 < p < 256) or 128 * r * ((1 << n) + p) > self.max_memory:
            return None
        if (r * p) << n > MAX_SCRYPT_WORK:
            return None
        try:
            salt, separator, signer_key, expected = (
                base64.b64decode(form[name] or "", validate=True) for name in ("salt", "ss", "sk", "hash")
            )
        except binascii.Error:
            return None
        return (n, r, p), (salt, separator, signer_key, expected)


_OWN_LABELS = "argon2id", f"m={Argon2id.memory_cost},t={Argon2id.time_cost},p={Argon2id.parallelism}"
_BCRYPT_NAME = "bcrypt"
_ARGON2 = Argon2id()
_FIREBASE_SCRYPT = FirebaseScrypt()
_BCRYPT = Bcrypt()


def hash_password(password: str) -> str:
    """The hash to store. Raises PasswordTooLong."""
    check_length(password)
    with _hashing_slot():
        return _encode(password)


def unusable_hash() -> str:
    """A hash in our own format that no password matches: random bytes in place of the derived key."""
    costs = f"m={Argon2id.memory_cost},t={Argon2id.time_cost},p={Argon2id.parallelism}"
    salt, key = (base64.b64encode(secrets.token_bytes(size)).rstrip(b"=").decode() for size in (16, 32))
    return f"$argon2id$v=19${costs}${salt}${key}"


def verify_password(password: str, stored: str | None) -> bool:
    """True when `password` matches the stored hash.

    Every refusal takes as long as every other one, without a hash too (no account, or one without a password): it
    compares the password with one hash of our own format and one of each kind that the database contains.
    """
    is_valid = len(password.encode()) <= MAX_BYTES
    kinds = hash_kinds.remembered()
    with _hashing_slot():
        is_compared = bool(stored) and is_valid
        if stored and is_compared and matches_hash(password, stored):
            return True
        _compare_with_others(password if is_valid else "", stored if is_compared else None, kinds=kinds)
        return False


def complete_refusal(password: str, stored: str) -> None:
    """Take the rest of the time of a refusal, after `verify_password` has accepted the password."""
    kinds = hash_kinds.remembered()
    with _hashing_slot():
        _compare_with_others(password, stored, kinds=kinds)


def learn_kind(stored: str | None) -> None:
    """List the kind of a refused hash that no import has announced, and read the kinds again once a minute.

    Call it after a refusal, outside a transaction. At most two statements.
    """
    kind = _kind(stored) if stored else None
    if kind is not None and kind not in hash_kinds.remembered() and kind != _own_kind():
        hash_kinds.add(kind)
    hash_kinds.refresh()


def is_same_password(password: str, stored: str) -> bool:
    """True when a new password of a signed-in user is the old one. Its time depends on the hash."""
    if len(password.encode()) > MAX_BYTES:
        return False
    with _hashing_slot():
        return matches_hash(password, stored)


def _compare_with_others(password: str, stored: str | None, *, kinds: Collection[HashKind]) -> None:
    """Compare with a hash of our own and of each of `kinds`, except for the comparison with `stored`, which was made.

    bcrypt takes twice the time for each further unit of its costs. So a comparison with costs c is completed to the
    highest costs C by comparisons with c, c + 1, …, C - 1.
    """
    done = _kind(stored) if stored else None
    needed = {_own_kind(), *(kind for kind in kinds if is_supported(_hash_of(kind)))}
    if done is not None:
        needed.add(done)
    bcrypt_costs = [int(kind.costs) for kind in needed if kind.algorithm == _BCRYPT_NAME]
    if bcrypt_costs:
        highest = max(bcrypt_costs)
        first = int(done.costs) if done is not None and done.algorithm == _BCRYPT_NAME else None
        rest = [highest] if first is None else range(first, highest)
        needed = {kind for kind in needed if kind.algorithm != _BCRYPT_NAME}
        for costs in rest:
            matches_hash(password, _hash_of(HashKind(_BCRYPT_NAME, f"{costs:02}")))
    for kind in sorted(needed - {done}):
        matches_hash(password, _comparison_hash(get_hasher()) if kind == _own_kind() else _hash_of(kind))


def _kind(stored: str) -> HashKind | None:
    """The kind of a hash that can be verified; None for any other, whose verification takes no time."""
    return hash_kinds.kind_of(stored) if is_supported(stored) else None


def _own_kind() -> HashKind:
    kind = hash_kinds.kind_of(_comparison_hash(get_hasher()))
    assert kind is not None  # noqa: S101  (narrowing; our own format)
    return kind


@lru_cache(maxsize=64)
def _hash_of(kind: HashKind) -> str:
    """A hash of this kind that no password matches."""
    salt, key, scrypt_key = (base64.b64encode(secrets.token_bytes(size)).decode() for size in (16, 32, 64))
    if kind.algorithm == _BCRYPT_NAME:
        return f"$2b${kind.costs}${bcrypt.gensalt(4).decode().rpartition('$')[2]}{'.' * 31}"
    if kind.algorithm == FirebaseScrypt.algorithm:
        return f"$fbscrypt$v=1,{kind.costs},ss=Bw==,sk={scrypt_key}${salt}${scrypt_key}"
    return f"${kind.algorithm}$v=19${kind.costs}${salt.rstrip('=')}${key.rstrip('=')}"


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


def awaits_password(user: UserRecord) -> bool:
    """True if the owner of an unconfirmed account chooses its password after the confirmation (`NO_PASSWORD`)."""
    return stored_hash(user) == NO_PASSWORD


def matches_hash(password: str, stored: str) -> bool:
    """True when the password matches the stored hash; False also for an unsupported hash.

    Takes no slot, and its time depends on the hash: requests use `verify_password`.
    """
    hasher, encoded = _select(stored)
    labels = hash_kinds.kind_of(stored) or ("unknown", "")
    metrics.COMPARISONS_STARTED.labels(*labels).inc()
    is_same = hasher.verify(password, encoded)
    metrics.COMPARISONS_COMPLETED.labels(*labels, "true" if is_same else "false").inc()
    return is_same


def needs_rehash(stored: str) -> bool:
    """True when the algorithm or the costs of the hash differ from those of new hashes."""
    hasher, encoded = _select(stored)
    return hasher is not _ARGON2 or get_hasher().must_update(encoded)


def is_supported(stored: str) -> bool:
    """True when passwords can be verified against this hash: a known format within the maximum costs."""
    hasher, encoded = _select(stored)
    return hasher.accepts(encoded)


def _encode(password: str) -> str:
    hasher = get_hasher()
    metrics.HASHES_STARTED.labels(*_OWN_LABELS).inc()
    encoded = hasher.encode(password, hasher.salt()).removeprefix(str(hasher.algorithm))
    metrics.HASHES_COMPLETED.labels(*_OWN_LABELS).inc()
    return encoded


def _select(stored: str) -> tuple[Argon2id | FirebaseScrypt | Bcrypt, str]:
    """The hasher of a stored hash, and the hash in Django's format."""
    if stored.startswith("$argon2"):
        return _ARGON2, f"{_ARGON2.algorithm}{stored}"
    if stored.startswith("$fbscrypt"):
        return _FIREBASE_SCRYPT, f"{_FIREBASE_SCRYPT.algorithm}{stored}"
    return _BCRYPT, f"{_BCRYPT.algorithm}${stored}"


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
    return _encode(hasher.salt())

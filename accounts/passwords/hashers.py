"""Reads and writes stored password hashes: Argon2id for our own, and the forms of imported accounts.

The stored text is the hash's own form (`$argon2id$v=19$…`). The framework's hashers want their algorithm's name in
front of it, which is added and taken off here and seen nowhere else. The hasher that writes is the first of Django's
PASSWORD_HASHERS; what is read needs no setting.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
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

from authsvc.observability import metrics

_UNPADDED = r"[A-Za-z0-9+/]+"
_PADDED = r"[A-Za-z0-9+/]+={0,2}"


class Argon2id(Argon2PasswordHasher):
    """Argon2id (RFC 9106) with OWASP's minimum; verifies Argon2i and Argon2id of any bearable parameters."""

    memory_cost = 19_456
    time_cost = 2
    parallelism = 1

    _form = re.compile(
        rf"argon2\$argon2(id?)\$v=19\$m=(\d{{1,7}}),t=(\d{{1,2}}),p=(\d{{1,2}})\${_UNPADDED}\${_UNPADDED}"
    )
    _ceilings = (1_048_576, 20, 16)

    def accepts(self, encoded: str) -> bool:
        form = self._form.fullmatch(encoded)
        return form is not None and all(
            int(cost) <= ceiling for cost, ceiling in zip(form.groups()[1:], self._ceilings, strict=True)
        )

    def verify(self, password: str, encoded: str) -> bool:
        return self.accepts(encoded) and super().verify(password, encoded)

    def must_update(self, encoded: str) -> bool:
        """Decided on kind and costs alone: a salt is no worse for having been made elsewhere."""
        form = self._form.fullmatch(encoded)
        costs = str(self.memory_cost), str(self.time_cost), str(self.parallelism)
        return form is None or form.groups() != ("id", *costs)


class Bcrypt(BCryptPasswordHasher):
    """bcrypt of imported accounts; never written."""

    # All minor letters mean the same function for passwords of up to 72 bytes; the library does not know every one.
    _form = re.compile(r"bcrypt\$\$2[a-z]?(\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53})")

    def accepts(self, encoded: str) -> bool:
        return self._form.fullmatch(encoded) is not None

    def verify(self, password: str, encoded: str) -> bool:
        form = self._form.fullmatch(encoded)
        # The function sees 72 bytes; the library refuses more instead of ignoring it.
        return form is not None and bcrypt.checkpw(password.encode()[:72], f"$2b{form[1]}".encode())


class FirebaseScrypt(BasePasswordHasher):
    """Firebase's scrypt of imported accounts: the derived key encrypts the project's signer key; never written."""

    algorithm = "fbscrypt"
    memory_ceiling = 64 * 1024 * 1024
    """Bytes that one verification may take; the usual parameters need 16 MiB."""

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
        room = self.memory_ceiling + 256 * r
        key = hashlib.scrypt(password.encode(), salt=salt + separator, n=1 << n, r=r, p=p, maxmem=room, dklen=32)
        encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        return hmac.compare_digest(encryptor.update(signer_key) + encryptor.finalize(), expected)

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        return {"algorithm": self.algorithm, "hash": mask_hash(encoded.rpartition("$")[2])}

    def must_update(self, encoded: str) -> bool:
        return True

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Nothing: the caller evens out what imported hashes cost."""

    def _read(self, encoded: str) -> tuple[tuple[int, int, int], tuple[bytes, bytes, bytes, bytes]] | None:
        """(n, r, p) and (salt, separator, signer key, hash); None for what is malformed or costs too much."""
        form = self._form.fullmatch(encoded)
        if form is None:
            return None
        n, r, p = (int(form[name]) for name in "nrp")
        # RFC 7914 §2: N is below 2^(16 r).
        if not (0 < n < 16 * r and 0 < p < 256) or 128 * r * ((1 << n) + p) > self.memory_ceiling:
            return None
        try:
            salt, separator, signer_key, expected = (
                base64.b64decode(form[name] or "", validate=True) for name in ("salt", "ss", "sk", "hash")
            )
        except binascii.Error:
            return None
        return (n, r, p), (salt, separator, signer_key, expected)


_OWN_KIND = "argon2id", f"m={Argon2id.memory_cost},t={Argon2id.time_cost},p={Argon2id.parallelism}"
_KINDS = (
    (re.compile(r"\$(argon2id?)\$v=19\$(?P<cost>m=\d+,t=\d+,p=\d+)\$"), ""),
    (re.compile(r"\$2[a-z]?\$(?P<cost>\d\d)\$"), "bcrypt"),
    (re.compile(r"\$fbscrypt\$v=1,(?P<cost>n=\d+,r=\d+,p=\d+)"), "fbscrypt"),
)
_ARGON2 = Argon2id()
_FIREBASE_SCRYPT = FirebaseScrypt()
_BCRYPT = Bcrypt()


def encode(password: str) -> str:
    """The text to store for a new password."""
    hasher = get_hasher()
    metrics.HASHES_STARTED.labels(*_OWN_KIND).inc()
    made = hasher.encode(password, hasher.salt()).removeprefix(str(hasher.algorithm))
    metrics.HASHES_COMPLETED.labels(*_OWN_KIND).inc()
    return made


def verify(password: str, stored: str) -> bool:
    """Whether the stored hash is one of this password; False too for a text that is no hash we can read."""
    hasher, encoded = _select(stored)
    labels = _kind(stored)
    metrics.COMPARISONS_STARTED.labels(*labels).inc()
    is_same = hasher.verify(password, encoded)
    metrics.COMPARISONS_COMPLETED.labels(*labels, "true" if is_same else "false").inc()
    return is_same


def _kind(stored: str) -> tuple[str, str]:
    """Algorithm and costs of a stored hash, for figures; those of a hash we cannot read are not told."""
    for form, name in _KINDS:
        if found := form.match(stored):
            return name or found[1], found["cost"]
    return "unknown", ""


def needs_rehash(stored: str) -> bool:
    """Whether the hash is of another kind or other costs than `make` would give it."""
    hasher, encoded = _select(stored)
    return hasher is not _ARGON2 or get_hasher().must_update(encoded)


def is_supported(stored: str) -> bool:
    """Whether somebody could sign in with this hash: a known form within the bounds of what we compute."""
    hasher, encoded = _select(stored)
    return hasher.accepts(encoded)


def _select(stored: str) -> tuple[Argon2id | FirebaseScrypt | Bcrypt, str]:
    """The hasher that reads the text, and the text as the framework writes it."""
    if stored.startswith("$argon2"):
        return _ARGON2, f"{_ARGON2.algorithm}{stored}"
    if stored.startswith("$fbscrypt"):
        return _FIREBASE_SCRYPT, f"{_FIREBASE_SCRYPT.algorithm}{stored}"
    return _BCRYPT, f"{_BCRYPT.algorithm}${stored}"


def random_hash() -> str:
    """A hash in our own form that is the hash of no password: random bytes where the derived key would stand."""
    costs = f"m={Argon2id.memory_cost},t={Argon2id.time_cost},p={Argon2id.parallelism}"
    salt, key = (base64.b64encode(secrets.token_bytes(size)).rstrip(b"=").decode() for size in (16, 32))
    return f"$argon2id$v=19${costs}${salt}${key}"

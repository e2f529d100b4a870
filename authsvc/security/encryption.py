"""Encrypts column values with AES-256-GCM, under a key that is derived for the row of the value."""

from __future__ import annotations

import secrets
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authsvc import conf
from authsvc.security import crypto

_ALGORITHM = "aes-gcm-hkdf"
_NONCE_BYTES = 12
_KEY_LABEL = "database.encryption"

DERIVED_KEY_ID = "AUTH_JWT_SECRET"
"""The id of the key that is derived from JWT_SECRET."""


class DecryptionError(Exception):
    """The key of a value is not configured, or the value was not encrypted for this row."""


class _Envelope(msgspec.Struct, frozen=True):
    """The stored JSON object. `data` is ciphertext and tag; byte strings are standard base64."""

    key_id: str
    alg: str
    data: bytes
    nonce: bytes


_decoder = msgspec.json.Decoder(_Envelope)


def encrypt(text: str, *, bound_to: UUID, always: bool = False) -> str:
    """The value to store for `text` in the row `bound_to`; the text itself if encryption is disabled.

    With `always`, a key that is derived from JWT_SECRET encrypts the value then. Use it for secrets that alone allow a
    sign-in, so that read access to the database does not.
    """
    config = conf.current().database
    if not (config.encrypt or always):
        return text
    nonce = secrets.token_bytes(_NONCE_BYTES)
    key_id = config.encryption_key_id if config.encrypt else DERIVED_KEY_ID
    key = crypto.base64url_decode(config.encryption_key.reveal()) if config.encrypt else _key(DERIVED_KEY_ID)
    cipher = _cipher(key, bound_to=bound_to)
    envelope = _Envelope(
        key_id=key_id,
        alg=_ALGORITHM,
        data=cipher.encrypt(nonce, text.encode(), None),
        nonce=nonce,
    )
    return msgspec.json.encode(envelope).decode()


def decrypt(stored: str, *, bound_to: UUID) -> str:
    """The text of a stored value; an unencrypted value is the text itself.

    Decrypts also while encryption of new values is disabled. Raises DecryptionError.
    """
    envelope = _parse(stored)
    if envelope is None:
        return stored
    key = _key(envelope.key_id)
    try:
        return _cipher(key, bound_to=bound_to).decrypt(envelope.nonce, envelope.data, None).decode()
    except (InvalidTag, UnicodeDecodeError):
        raise DecryptionError(f"the key {envelope.key_id!r} does not open this value for row {bound_to}") from None


def needs_reencryption(stored: str, *, always: bool = False) -> bool:
    """True if encryption is enabled and the value is unencrypted or uses another key.

    With `always` also if encryption is disabled and the value is unencrypted.
    """
    config = conf.current().database
    if not (config.encrypt or always):
        return False
    envelope = _parse(stored)
    return envelope is None or (config.encrypt and envelope.key_id != config.encryption_key_id)


def key_id(stored: str) -> str:
    """The key id of a stored value, empty for an unencrypted one."""
    envelope = _parse(stored)
    return envelope.key_id if envelope else ""


def _parse(stored: str) -> _Envelope | None:
    if not stored.startswith("{"):
        return None
    try:
        envelope = _decoder.decode(stored)
    except msgspec.DecodeError:
        return None
    is_valid = envelope.alg == _ALGORITHM and envelope.key_id and envelope.data and len(envelope.nonce) == _NONCE_BYTES
    return envelope if is_valid else None


def _key(key_id: str) -> bytes:
    """The key with this id. Raises DecryptionError when it is not configured."""
    if key_id == DERIVED_KEY_ID:
        return crypto.derive_key(_KEY_LABEL)
    key = conf.current().database.decryption_keys.get(key_id)
    if key is None:
        raise DecryptionError(f"no decryption key with the id {key_id!r} is configured")
    return crypto.base64url_decode(key.reveal())


def _cipher(key: bytes, *, bound_to: UUID) -> AESGCM:
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=str(bound_to).encode())
    return AESGCM(derivation.derive(key))

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


class DecryptionError(Exception):
    """The key of a value is not configured, or the value was not encrypted for this row."""


class _Envelope(msgspec.Struct, frozen=True):
    """The stored JSON object. `data` is ciphertext and tag; byte strings are standard base64."""

    key_id: str
    alg: str
    data: bytes
    nonce: bytes


_decoder = msgspec.json.Decoder(_Envelope)


def encrypt(text: str, *, bound_to: UUID) -> str:
    """The value to store for `text` in the row `bound_to`; the text itself if encryption is disabled."""
    config = conf.current().database
    if not config.encrypt:
        return text
    nonce = secrets.token_bytes(_NONCE_BYTES)
    cipher = _cipher(config.encryption_key.reveal(), bound_to=bound_to)
    envelope = _Envelope(
        key_id=config.encryption_key_id,
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
    key = conf.current().database.decryption_keys.get(envelope.key_id)
    if key is None:
        raise DecryptionError(f"no decryption key with the id {envelope.key_id!r} is configured")
    try:
        return _cipher(key.reveal(), bound_to=bound_to).decrypt(envelope.nonce, envelope.data, None).decode()
    except (InvalidTag, UnicodeDecodeError):
        raise DecryptionError(f"the key {envelope.key_id!r} does not open this value for row {bound_to}") from None


def needs_reencryption(stored: str) -> bool:
    """True if encryption is enabled and the value is unencrypted or uses another key."""
    config = conf.current().database
    if not config.encrypt:
        return False
    envelope = _parse(stored)
    return envelope is None or envelope.key_id != config.encryption_key_id


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


def _cipher(key: str, *, bound_to: UUID) -> AESGCM:
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=str(bound_to).encode())
    return AESGCM(derivation.derive(crypto.base64url_decode(key)))

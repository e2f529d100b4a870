"""Signatures of Solana wallets over messages (Ed25519)."""

from __future__ import annotations

import struct

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_KEY_BYTES = 32
# Signatures for these points need no private key; they are of small order (RFC 8032 §5.1), in all their encodings.
_WEAK_KEYS = frozenset(
    bytes.fromhex(text[:-2]) + bytes([last])
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
    for last in (int(text[-2:], 16), int(text[-2:], 16) | 0x80)
)
_DOMAIN_BYTES = 32
_MAX_FRAMED_BYTES = 65_535


def is_signed_by(address: str, *, message: str, signature: bytes, domain: str) -> bool:
    """True if the key `address` (base58) signed the message, or its off-chain frame, as hardware wallets do."""
    key = _decode_base58(address)
    if key is None or len(key) != _KEY_BYTES or key in _WEAK_KEYS:
        return False
    text = message.encode()
    try:
        public_key = Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        return False
    contents = [text]
    if len(text) <= _MAX_FRAMED_BYTES:
        frame = domain.encode()[:_DOMAIN_BYTES].ljust(_DOMAIN_BYTES, b"\0")
        contents.append(b"\xffsolana offchain\0" + frame + b"\0\1" + key + struct.pack("<H", len(text)) + text)
    return any(_is_valid(public_key, signature, content) for content in contents)


def _is_valid(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _decode_base58(text: str) -> bytes | None:
    """The bytes of a base58 text; None for other characters."""
    number = 0
    for character in text:
        digit = _ALPHABET.find(character)
        if digit < 0:
            return None
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")

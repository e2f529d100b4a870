"""Random codes and tokens, their stored digests, and constant-time comparison.

All randomness comes from the operating system.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authsvc import conf

# "-" and "_" become the standard alphabet; characters of that alphabet alone become an invalid one.
_URL_TO_STANDARD = bytes.maketrans(b"-_+/=", b"+/!!!")


def derive_key(label: str) -> bytes:
    """32 bytes for one purpose: HKDF-SHA256 (RFC 5869) of JWT_SECRET with `label` as the info."""
    secret = conf.current().jwt.secret.reveal().encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=label.encode()).derive(secret)


def generate_code(*, digits: int) -> str:
    """A uniformly random number of exactly `digits` decimal digits, leading zeros included."""
    return f"{secrets.randbelow(10**digits):0{digits}d}"


def hash_code(identifier: str, code: str) -> str:
    """The stored digest of a code: 56 hex digits, SHA-224 of address and code.

    `identifier` is the lower-cased email address, or the digits of the phone number without `+`.
    """
    return hashlib.sha224(f"{identifier}{code}".encode()).hexdigest()


def generate_link_token() -> str:
    """The token of an emailed link: 28 random bytes as 56 hex digits."""
    return secrets.token_hex(28)


def hash_link_token(token: str) -> str:
    """The stored digest of a link token: 64 hex digits, SHA-256 of the token."""
    return hashlib.sha256(token.encode()).hexdigest()


def generate_key() -> str:
    """32 random bytes as 43 characters of base64url."""
    return base64url_encode(secrets.token_bytes(32))


def constant_time_equal(a: str | bytes, b: str | bytes) -> bool:
    """True if both are equal; the duration does not depend on the position of a difference."""
    return hmac.compare_digest(_as_bytes(a), _as_bytes(b))


def base64url_encode(content: bytes) -> str:
    """Base64url without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def base64url_decode(text: str) -> bytes:
    """Decode base64url without padding (RFC 7515 §2).

    Raises ValueError for any other character, padding included, and for an impossible length.
    """
    standard = text.encode("ascii").translate(_URL_TO_STANDARD)
    return binascii.a2b_base64(standard + b"=" * (-len(standard) % 4), strict_mode=True)


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value

"""Random codes and tokens, their stored digests, and constant-time comparison.

All randomness comes from the operating system.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from uuid import uuid4

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authsvc import conf

_DIGEST_LABEL = "tokens.one-time"

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
    """The stored digest of a code: 64 hex digits, the keyed digest of `plain_code_digest`.

    `identifier` is the lower-cased email address, or the digits of the phone number without `+`. Without JWT_SECRET the
    million possible codes cannot be compared with the digest.
    """
    return key_digest(plain_code_digest(identifier, code))


def plain_code_digest(identifier: str, code: str) -> str:
    """SHA-224 of address and code in 56 hex digits, as former versions and the reference server store it."""
    return hashlib.sha224(f"{identifier}{code}".encode()).hexdigest()


def generate_link_token() -> str:
    """The token of an emailed link: 28 random bytes as 56 hex digits."""
    return secrets.token_hex(28)


def hash_link_token(token: str) -> str:
    """The stored digest of a link token: 64 hex digits, the keyed digest of `plain_token_digest`.

    The links of an imported database are digests of address and code, so that a plain digest could be computed.
    """
    return key_digest(plain_token_digest(token))


def plain_token_digest(token: str) -> str:
    """SHA-256 of a token in 64 hex digits, as former versions store it."""
    return hashlib.sha256(token.encode()).hexdigest()


def key_digest(digest: str) -> str:
    """HMAC-SHA256 of a digest of a one-time secret, in hex, under a key derived from JWT_SECRET."""
    return hmac.digest(derive_key(_DIGEST_LABEL), digest.encode(), hashlib.sha256).hex()


def key_digest_sql(expression: str) -> str:
    """The SQL expression that computes `key_digest`; its parameters are those of `digest_key_pads`."""
    inner = f"sha256(%(inner_pad)s::bytea || convert_to({expression}, 'UTF8'))"
    return f"encode(sha256(%(outer_pad)s::bytea || {inner}), 'hex')"


def digest_key_pads() -> dict[str, bytes]:
    """The key of `key_digest`, combined with the inner and the outer pad of HMAC (RFC 2104 §2)."""
    key = derive_key(_DIGEST_LABEL).ljust(hashlib.sha256().block_size, b"\0")
    return {"inner_pad": bytes(byte ^ 0x36 for byte in key), "outer_pad": bytes(byte ^ 0x5C for byte in key)}


def generate_auth_code() -> str:
    """A code of a PKCE flow: a random UUID."""
    return str(uuid4())


def hash_auth_code(code: str) -> str:
    """The stored digest of a PKCE code, without a key, because the code has 122 random bits."""
    return plain_token_digest(code)


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

"""JSON Web Key Sets (RFC 7517): which of somebody's public keys has signed a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jwt
import msgspec

# RFC 7518 §3.1, §6; RFC 8037 §3.1: algorithms whose keys can be published, and which key each of them takes.
_KEYS: Mapping[str, tuple[str, str | None]] = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
ALGORITHMS = frozenset(_KEYS)
_PUBLIC_MEMBERS = frozenset({"kty", "n", "e", "crv", "x", "y"})
_MOST_TRIED = 10


class KeySet(msgspec.Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


def signed_payload(token: str, header: Mapping[str, Any], key_set: KeySet) -> bytes | None:
    """What a token with this header says when one of the keys has signed it, else None.

    Its algorithm is one of ALGORITHMS.
    """
    algorithm = header["alg"]
    for key in _fitting(key_set, algorithm=algorithm, kid=header.get("kid")):
        try:
            read = jwt.PyJWS().decode_complete(
                token,
                key=jwt.PyJWK(key, algorithm=algorithm),
                algorithms=[algorithm],
                options={"verify_signature": True, "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            continue  # not signed by it, or no key at all
        payload: bytes = read["payload"]
        return payload
    return None


def _fitting(key_set: KeySet, *, algorithm: str, kid: object) -> Iterator[dict[str, Any]]:
    """The keys that may have signed, without private parts that somebody published by mistake."""
    tried = 0
    for key in key_set.keys:
        if (key.get("kty"), key.get("crv")) != _KEYS[algorithm]:
            continue
        if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
            continue
        if kid is not None and key.get("kid") != kid:
            continue
        tried += 1
        if tried > _MOST_TRIED:
            return
        yield {name: value for name, value in key.items() if name in _PUBLIC_MEMBERS}

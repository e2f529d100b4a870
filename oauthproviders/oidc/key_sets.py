"""JSON Web Key Sets (RFC 7517): verification of a token with the keys of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jwt
import msgspec

# RFC 7518 §3.1, §6; RFC 8037 §3.1: asymmetric algorithms and their key types.
_KEYS: Mapping[str, tuple[str, str | None]] = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
ALGORITHMS = frozenset(_KEYS)
_PUBLIC_MEMBERS = frozenset({"kty", "n", "e", "crv", "x", "y"})
_MAX_KEYS_TRIED = 10


class KeySet(msgspec.Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


def verified_payload(token: str, header: Mapping[str, Any], key_set: KeySet) -> bytes | None:
    """The payload of a token if one of the keys verifies it, else None. Its algorithm is one of ALGORITHMS."""
    algorithm = header["alg"]
    for key in _candidates(key_set, algorithm=algorithm, kid=header.get("kid")):
        try:
            decoded = jwt.PyJWS().decode_complete(
                token,
                key=jwt.PyJWK(key, algorithm=algorithm),
                algorithms=[algorithm],
                options={"verify_signature": True, "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            continue  # another key, or a malformed one
        payload: bytes = decoded["payload"]
        return payload
    return None


def _candidates(key_set: KeySet, *, algorithm: str, kid: object) -> Iterator[dict[str, Any]]:
    """The keys that fit the header, without private members that were published by mistake."""
    tried = 0
    for key in key_set.keys:
        if (key.get("kty"), key.get("crv")) != _KEYS[algorithm]:
            continue
        if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
            continue
        if kid is not None and key.get("kid") != kid:
            continue
        tried += 1
        if tried > _MAX_KEYS_TRIED:
            return
        yield {name: value for name, value in key.items() if name in _PUBLIC_MEMBERS}

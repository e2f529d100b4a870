"""Verifies signed JWTs with the published keys of another party (RFC 7517), by asymmetric algorithms only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jwt
import msgspec

# RFC 7518 §3.1, §6; RFC 8037 §3.1: asymmetric algorithms and their key types.
_KEY_TYPES: Mapping[str, tuple[str, str | None]] = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
ALGORITHMS = frozenset(_KEY_TYPES)
_PUBLIC_MEMBERS = frozenset({"kty", "n", "e", "crv", "x", "y"})
_MAX_KEYS_TRIED = 10


class PublishedKeys(msgspec.Struct, frozen=True):
    """A JSON Web Key Set of another party (RFC 7517 §5). Its keys are untrusted."""

    keys: tuple[dict[str, Any], ...]


def usable_algorithms(key: Mapping[str, Any], algorithms: Collection[str]) -> list[str]:
    """Those of `algorithms` whose signatures a published key verifies."""
    return [algorithm for algorithm in algorithms if algorithm in ALGORITHMS and _is_usable(key, algorithm)]


def _is_usable(key: Mapping[str, Any], algorithm: str) -> bool:
    for candidate in _candidates(PublishedKeys(keys=(dict(key),)), algorithm=algorithm, kid=None):
        try:
            key_of_algorithm = jwt.PyJWK(candidate, algorithm=algorithm)
            problem = key_of_algorithm.Algorithm.check_key_length(key_of_algorithm.key)
        except (jwt.PyJWTError, ValueError, TypeError):
            return False
        return problem is None
    return False


def verify_signature(token: str, header: Mapping[str, Any], keys: PublishedKeys) -> bytes | None:
    """The payload of a token if one of the keys verifies it, else None. Its algorithm is one of ALGORITHMS."""
    algorithm = header["alg"]
    for key in _candidates(keys, algorithm=algorithm, kid=header.get("kid")):
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


def _candidates(keys: PublishedKeys, *, algorithm: str, kid: object) -> Iterator[dict[str, Any]]:
    """The keys that fit the header, without private members that were published by mistake."""
    tried = 0
    for key in keys.keys:
        if (key.get("kty"), key.get("crv")) != _KEY_TYPES[algorithm]:
            continue
        if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
            continue
        if kid is not None and key.get("kid") != kid:
            continue
        tried += 1
        if tried > _MAX_KEYS_TRIED:
            return
        yield {name: value for name, value in key.items() if name in _PUBLIC_MEMBERS}

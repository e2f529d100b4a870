"""What `manage.py doctor` finds out about the keys that tokens are signed and checked with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from django.core.exceptions import ImproperlyConfigured
from jwt.algorithms import RSAAlgorithm

from authsvc import conf
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, warning
from tokens.jwt import signing_keys

_SHORTEST_RSA = 2048
_SHORTEST_SECRET = 32


class SigningKeyDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        try:
            keyset = signing_keys.current()
        except ImproperlyConfigured as error:
            yield failure("keys", str(error), "Set AUTH_JWT_KEYS to what manage.py generate_keys prints.")
            return
        named = keyset.signing.kid or "without kid"
        yield ok("keys", f"access tokens are signed with {keyset.signing.alg} ({named})")
        if keyset.signing.alg != signing_keys.HS256 and not keyset.signing.kid:
            remedy = "Give it a kid: verifiers find a key by it, and keys cannot be changed without."
            yield warning("keys", "the signing key has no kid", remedy)
        for key in conf.current().jwt.keys:
            yield from _weak(key)
        if len(conf.current().jwt.secret.reveal().encode()) < _SHORTEST_SECRET:
            remedy = "Set AUTH_JWT_SECRET to at least 32 random characters; operators and HS256 clients sign in again."
            yield warning("keys", "AUTH_JWT_SECRET is shorter than 32 bytes (RFC 7518 §3.2)", remedy)


def _weak(jwk: Mapping[str, Any]) -> Iterator[CheckResult]:
    if jwk.get("kty") != "RSA":
        return
    key = RSAAlgorithm.from_jwk({name: jwk[name] for name in ("kty", "n", "e")})
    if isinstance(key, RSAPublicKey) and key.key_size < _SHORTEST_RSA:
        message = f"the RSA key {jwk.get('kid', '')!r} has {key.key_size} bits (RFC 7518 §3.3 asks for 2048)"
        yield failure("keys", message, "Make a new one with manage.py generate_keys.")

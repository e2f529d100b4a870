"""Checks of the keys that sign and verify tokens: a system check, which prevents the start, and a doctor check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from jwt.algorithms import RSAAlgorithm

from authsvc import conf
from authsvc.diagnostics.registry import CheckResult, DiagnosticContext, failure, ok, warning
from tokens.jwt import signing_keys

_MIN_RSA_BITS = 2048
_MIN_SECRET_BYTES = 32


def check_signing_keys(**_: Any) -> list[CheckMessage]:
    try:
        signing_keys.current()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="tokens.E001")]
    return []


class SigningKeyDiagnostic:
    def run(self, context: DiagnosticContext) -> Iterator[CheckResult]:
        try:
            keyset = signing_keys.current()
        except ImproperlyConfigured as error:
            yield failure("keys", str(error), "Set AUTH_JWT_KEYS to the output of manage.py generate_keys.")
            return
        kid = keyset.signing.kid or "without kid"
        yield ok("keys", f"access tokens are signed with {keyset.signing.alg} ({kid})")
        if keyset.signing.alg != signing_keys.HS256 and not keyset.signing.kid:
            remedy = "Add a kid: verifiers select keys by kid, and key rotation requires it."
            yield warning("keys", "the signing key has no kid", remedy)
        for key in conf.current().jwt.keys:
            yield from _check_rsa_size(key)
        if len(conf.current().jwt.secret.reveal().encode()) < _MIN_SECRET_BYTES:
            remedy = "Set AUTH_JWT_SECRET to at least 32 random characters. This ends all HS256 sessions."
            yield warning("keys", "AUTH_JWT_SECRET is shorter than 32 bytes (RFC 7518 §3.2)", remedy)


def _check_rsa_size(jwk: Mapping[str, Any]) -> Iterator[CheckResult]:
    if jwk.get("kty") != "RSA":
        return
    key = RSAAlgorithm.from_jwk({name: jwk[name] for name in ("kty", "n", "e")})
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        message = f"the RSA key {jwk.get('kid', '')!r} has {key.key_size} bits (RFC 7518 §3.3 requires 2048)"
        yield failure("keys", message, "Create a new key with manage.py generate_keys.")

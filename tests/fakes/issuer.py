"""An OpenID Connect issuer on a fake server: discovery document, keys and signed ID tokens."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from tests.fakes.http_peer import FakeServer, in_json

_CURVES: Mapping[str, type[ec.EllipticCurve]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


class SigningKey:
    """A key pair for one algorithm (RFC 7518 §3.1), with a generated key ID unless `kid` is passed.

    It is generated at the first use, because RSA keys take 60 ms and many modules have some.
    """

    def __init__(self, algorithm: str = "RS256", *, kid: str | None = None, bits: int = 2048) -> None:
        self.algorithm = algorithm
        self.kid = uuid4().hex if kid is None else kid
        self._bits = bits

    @cached_property
    def private(self) -> Any:
        return _private_key(self.algorithm, bits=self._bits)

    @property
    def jwk(self) -> dict[str, Any]:
        """The published public key; without `kid` if that is empty."""
        public: Any = self.private.public_key()
        members: dict[str, Any] = get_default_algorithms()[self.algorithm].to_jwk(public, as_dict=True)
        members.pop("key_ops", None)
        return {**members, "alg": self.algorithm, "use": "sig", **({"kid": self.kid} if self.kid else {})}

    def sign(self, claims: Mapping[str, Any] | bytes, **header: Any) -> str:
        """A signed token with these claims, unchecked; `header` adds members to `alg` and `kid`."""
        named = {"alg": self.algorithm, **({"kid": self.kid} if self.kid else {}), **header}
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        signed = f"{unpadded(json.dumps(named).encode())}.{unpadded(payload)}"
        signature = get_default_algorithms()[self.algorithm].sign(signed.encode(), self.private)
        return f"{signed}.{unpadded(signature)}"


def unpadded(content: bytes) -> str:
    """RFC 7515 §2."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Issuer:
    """Serves `server` below `path`; `name`, by default its URL, is the issuer in its documents and tokens.

    `delay` is the response time of the discovery document in seconds.
    """

    delay = 0.0

    def __init__(self, server: FakeServer, *, path: str = "", key: SigningKey | None = None, **discovered: Any) -> None:
        self.server = server
        self.path = path
        self.url = self.name = f"{server.url}{path}"
        self.key = key or SigningKey()
        self.publish_discovery(**discovered)
        self.publish_keys(self.key)

    @property
    def discovery_path(self) -> str:
        return f"{self.path}/.well-known/openid-configuration"

    @property
    def keys_path(self) -> str:
        return f"{self.path}/keys"

    def publish_discovery(self, **changes: Any) -> None:
        """Publish the discovery document with these `changes`; None removes a member."""
        document = {
            "issuer": self.name,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self.key.algorithm],
            **changes,
        }
        kept = {name: value for name, value in document.items() if value is not None}
        self.server.respond(dataclasses.replace(in_json(kept), delay=self.delay), path=self.discovery_path)

    def publish_keys(self, *keys: SigningKey) -> None:
        self.server.respond(in_json({"keys": [key.jwk for key in keys]}), path=self.keys_path)

    def token(self, *, key: SigningKey | None = None, **changes: Any) -> str:
        """An ID token for the user Ada and the client `cid`; None removes a claim."""
        now = int(time.time())
        claims = {
            "iss": self.name,
            "sub": "7",
            "aud": "cid",
            "iat": now,
            "exp": now + 600,
            "email": "ada@example.com",
            "email_verified": True,
            "name": "Ada L",
            **changes,
        }
        return (key or self.key).sign({name: value for name, value in claims.items() if value is not None})

    def request_count(self, path: str) -> int:
        """The number of requests for a path."""
        return sum(received.path == path for received in self.server.received)


def at_hash(access_token: str, *, bits: int = 256) -> str:
    """OpenID Connect Core §3.1.3.6."""
    digest = hashlib.new(f"sha{bits}", access_token.encode()).digest()
    return unpadded(digest[: len(digest) // 2])


def _private_key(algorithm: str, *, bits: int) -> Any:
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)

"""A WebAuthn authenticator and browser that answer both ceremonies in their JSON forms.

Keyword arguments change parts of the response before it is signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

UP, UV, BE, BS, AT = 0x01, 0x04, 0x08, 0x10, 0x40
UNKNOWN_AAGUID = UUID(int=0)
"""The AAGUID of an authenticator that does not disclose its model."""

_CURVES: dict[int, tuple[int, ec.EllipticCurve, hashes.HashAlgorithm]] = {
    -7: (1, ec.SECP256R1(), hashes.SHA256()),
    -35: (2, ec.SECP384R1(), hashes.SHA384()),
    -36: (3, ec.SECP521R1(), hashes.SHA512()),
}
_RSA: dict[int, hashes.HashAlgorithm] = {
    -257: hashes.SHA256(), -258: hashes.SHA384(), -259: hashes.SHA512(),
    -37: hashes.SHA256(), -38: hashes.SHA384(), -39: hashes.SHA512(),
}  # fmt: skip

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@cache
def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def make_key(algorithm: int) -> Key:
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm][1])
    return ed25519.Ed25519PrivateKey.generate() if algorithm == -8 else _rsa_key()


def cose_key(key: Key, algorithm: int) -> dict[int, Any]:
    """RFC 9053 §7."""
    if isinstance(key, ec.EllipticCurvePrivateKey):
        curve, size = _CURVES[algorithm][0], (key.curve.key_size + 7) // 8
        numbers = key.public_key().public_numbers()
        return {1: 2, 3: algorithm, -1: curve, -2: numbers.x.to_bytes(size, "big"), -3: numbers.y.to_bytes(size, "big")}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return {1: 1, 3: algorithm, -1: 6, -2: key.public_key().public_bytes_raw()}
    public = key.public_key().public_numbers()
    return {1: 3, 3: algorithm, -1: public.n.to_bytes(256, "big"), -2: public.e.to_bytes(3, "big")}


def sign(key: Key, algorithm: int, content: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(_CURVES[algorithm][2]))
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(content)
    digest = _RSA[algorithm]
    if algorithm > -200:
        return key.sign(content, padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH), digest)
    return key.sign(content, padding.PKCS1v15(), digest)


@dataclass(slots=True, kw_only=True)
class Credential:
    id: bytes
    key: Key = field(repr=False)
    algorithm: int
    user_handle: bytes
    count: int = 0


@dataclass(slots=True, kw_only=True)
class Authenticator:
    """Creates and stores credentials; `newest` is the most recent one."""

    rp_id: str = "localhost"
    origin: str = "http://localhost:3000"
    algorithm: int = -7
    aaguid: UUID = UNKNOWN_AAGUID
    flags: int = UP | UV
    credentials: list[Credential] = field(default_factory=list)

    @property
    def newest(self) -> Credential:
        return self.credentials[-1]

    def create(
        self,
        options: dict[str, Any],
        *,
        credential: Credential | None = None,
        fmt: str = "none",
        transports: list[str] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """The result of `navigator.credentials.create`, for a new credential unless `credential` is passed."""
        if credential is None:
            credential = Credential(
                id=secrets.token_bytes(32),
                key=make_key(self.algorithm),
                algorithm=self.algorithm,
                user_handle=decode(options["user"]["id"]),
            )
            self.credentials.append(credential)
        client_data = self._client_data("webauthn.create", options, changes)
        attested = self.aaguid.bytes + len(credential.id).to_bytes(2, "big") + credential.id
        attested += cbor2.dumps(cose_key(credential.key, credential.algorithm))
        data = self._data(changes, count=credential.count, further=AT) + attested
        statement = self._statement(fmt, credential, data + hashlib.sha256(client_data).digest())
        attestation = {"fmt": fmt, "attStmt": changes.get("statement", statement), "authData": data}
        response: dict[str, Any] = {
            "clientDataJSON": encode(client_data),
            "attestationObject": encode(cbor2.dumps(attestation)),
        }
        if transports is not None:
            response["transports"] = transports
        return self._credential_json(credential, response)

    def get(
        self, options: dict[str, Any], *, credential: Credential | None = None, names_user: bool = True, **changes: Any
    ) -> dict[str, Any]:
        """The result of `navigator.credentials.get`, for the newest credential unless one is passed."""
        credential = credential or self.newest
        credential.count = changes.get("count", credential.count + 1)
        client_data = self._client_data("webauthn.get", options, changes)
        data = self._data(changes, count=credential.count)
        signed = sign(credential.key, credential.algorithm, data + hashlib.sha256(client_data).digest())
        response = {
            "clientDataJSON": encode(client_data),
            "authenticatorData": encode(data),
            "signature": encode(changes.get("signature", signed)),
        }
        if names_user:
            response["userHandle"] = encode(changes.get("user_handle", credential.user_handle))
        return self._credential_json(credential, response)

    def _client_data(self, type: str, options: dict[str, Any], changes: dict[str, Any]) -> bytes:
        client_data = {
            "type": changes.get("type", type),
            "challenge": changes.get("challenge", options["challenge"]),
            "origin": changes.get("origin", self.origin),
            "crossOrigin": False,
        }
        if "token_binding" in changes:
            client_data["tokenBinding"] = changes["token_binding"]
        return json.dumps(client_data).encode()

    def _data(self, changes: dict[str, Any], *, count: int, further: int = 0) -> bytes:
        party = hashlib.sha256(changes.get("rp_id", self.rp_id).encode()).digest()
        return party + bytes([changes.get("flags", self.flags) | further]) + count.to_bytes(4, "big")

    @staticmethod
    def _statement(fmt: str, credential: Credential, signed: bytes) -> Any:
        own = {"alg": credential.algorithm, "sig": sign(credential.key, credential.algorithm, signed)}
        if fmt == "compound":
            return [{"fmt": "packed", "attStmt": own}, {"fmt": "none", "attStmt": {}}]
        return own if fmt == "packed" else {}

    @staticmethod
    def _credential_json(credential: Credential, response: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": encode(credential.id),
            "rawId": encode(credential.id),
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": response,
        }

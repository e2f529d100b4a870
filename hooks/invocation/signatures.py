"""Signatures of payloads (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from authsvc.conf.types import Secret

_SEED_BYTES = 32


def signed_headers(secrets: Iterable[Secret], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a signed call; `timestamp` in Unix seconds. Without secrets there is no signature."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    signature = sign(secrets, message_id=message_id, timestamp=timestamp, body=body)
    return headers | {"webhook-signature": signature} if signature else headers


def sign(secrets: Iterable[Secret], *, message_id: str, timestamp: int, body: bytes) -> str:
    """A signature by each secret, in their order, separated by spaces.

    A secret is `v1,whsec_<base64>` for HMAC-SHA-256, or `v1a,whpk_<base64>:whsk_<base64>` for Ed25519, whose private
    part is the seed or the seed with the public key.
    """
    content = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(_sign(secret.reveal(), content) for secret in secrets)


def _sign(secret: str, content: bytes) -> str:
    version, _, keys = secret.partition(",")
    if version == "v1":
        key = base64.b64decode(keys.removeprefix("whsec_"))
        signature = hmac.new(key, content, hashlib.sha256).digest()
    else:
        seed = base64.b64decode(keys.partition(":whsk_")[2])[:_SEED_BYTES]
        signature = Ed25519PrivateKey.from_private_bytes(seed).sign(content)
    return f"{version},{base64.b64encode(signature).decode()}"

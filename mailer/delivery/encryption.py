"""Messages as ciphertext for the time they wait: address, code and link are readable by nobody who reads the queue."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from datetime import datetime
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from authsvc.messaging import Email, EmailKind, Sms, SmsKind
from authsvc.security import crypto

_KEY_LABEL = "mailer.job"
_MARK_LABEL = "mailer.recipient"
_NONCE_BYTES = 12
_MARK_BYTES = 16


class SealBroken(Exception):
    """The text is not what was sealed for this message, or was sealed under another JWT_SECRET."""


def seal(message: Email | Sms) -> str:
    """Base64 of nonce and AES-256-GCM ciphertext, bound to the message's id.

    Raises TypeError for variables that are not JSON.
    """
    content = {
        "kind": str(message.kind),
        "to": message.to,
        "variables": dict(message.variables),
        "user_id": str(message.user_id) if message.user_id else None,
        "expires_at": message.expires_at.isoformat() if message.expires_at else None,
        "sms_channel": message.channel if isinstance(message, Sms) else None,
    }
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = _cipher().encrypt(nonce, json.dumps(content).encode(), message.id.bytes)
    return base64.b64encode(nonce + ciphertext).decode()


def unseal(sealed: str, *, message_id: UUID) -> Email | Sms:
    """The message as it was announced. Raises SealBroken."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        plain = _cipher().decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], message_id.bytes)
    except (ValueError, InvalidTag):
        raise SealBroken("the stored message cannot be opened with this JWT_SECRET") from None
    content: dict[str, Any] = json.loads(plain)
    common: dict[str, Any] = {
        "id": message_id,
        "to": content["to"],
        "variables": content["variables"],
        "user_id": UUID(content["user_id"]) if content["user_id"] else None,
        "expires_at": datetime.fromisoformat(content["expires_at"]) if content["expires_at"] else None,
    }
    if content["sms_channel"] is not None:
        return Sms(kind=SmsKind(content["kind"]), channel=content["sms_channel"], **common)
    return Email(kind=EmailKind(content["kind"]), **common)


def mark(name: str | UUID) -> str:
    """What stands beside a sealed message for its recipient's address or user id, so that it is found unopened.

    A keyed digest: the same for the same name, and nobody without JWT_SECRET can tell for which.
    """
    digest = hmac.digest(crypto.derive_key(_MARK_LABEL), str(name).encode(), hashlib.sha256)
    return crypto.base64url_encode(digest[:_MARK_BYTES])


def _cipher() -> AESGCM:
    return AESGCM(crypto.derive_key(_KEY_LABEL))

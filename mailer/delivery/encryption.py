"""Encrypts queued messages, so that the queue reveals no address, code or link."""

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

from authsvc.messaging import Email, EmailType, HookCall, Message, Sms, SmsType
from authsvc.security import crypto

_KEY_LABEL = "mailer.job"
_RECIPIENT_LABEL = "mailer.recipient"
_NONCE_BYTES = 12
_DIGEST_BYTES = 16


class DecryptionFailed(Exception):
    """The ciphertext was changed, belongs to another message, or was made with another JWT_SECRET."""


def encrypt(message: Message) -> str:
    """Base64 of nonce and AES-256-GCM ciphertext, bound to the message's id.

    Raises TypeError for variables that are not JSON.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = cipher().encrypt(nonce, json.dumps(_content(message)).encode(), message.id.bytes)
    return base64.b64encode(nonce + ciphertext).decode()


def decrypt(encrypted: str, *, message_id: UUID) -> Message:
    """The message as the sender passed it. Raises DecryptionFailed."""
    try:
        raw = base64.b64decode(encrypted, validate=True)
        plain = cipher().decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], message_id.bytes)
    except (ValueError, InvalidTag):
        raise DecryptionFailed("the stored message cannot be decrypted with this JWT_SECRET") from None
    return _message(json.loads(plain), message_id=message_id)


def _content(message: Message) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": str(message.type),
        "to": message.to,
        "variables": dict(message.variables),
        "user_id": str(message.user_id) if message.user_id else None,
        "expires_at": message.expires_at.isoformat() if message.expires_at else None,
        "language": message.language,
        "sms_channel": message.channel if isinstance(message, Sms) else None,
    }
    if (call := message.hook_call) is not None:
        other = {"id": str(call.other.id), **_content(call.other)} if call.other else None
        content["hook_call"] = {"payload": call.payload, "address": call.address, "other": other}
    return content


def _message(content: dict[str, Any], *, message_id: UUID) -> Message:
    common: dict[str, Any] = {
        "id": message_id,
        "to": content["to"],
        "variables": content["variables"],
        "user_id": UUID(content["user_id"]) if content["user_id"] else None,
        "expires_at": datetime.fromisoformat(content["expires_at"]) if content["expires_at"] else None,
        "language": content.get("language", ""),  # messages of older versions have none
        "hook_call": _hook_call(content["hook_call"]) if "hook_call" in content else None,
    }
    if content["sms_channel"] is not None:
        return Sms(type=SmsType(content["kind"]), channel=content["sms_channel"], **common)
    return Email(type=EmailType(content["kind"]), **common)


def _hook_call(content: dict[str, Any]) -> HookCall:
    stored = content["other"]
    other = _message(stored, message_id=UUID(stored["id"])) if stored else None
    return HookCall(
        payload=content["payload"], address=content["address"], other=other if isinstance(other, Email) else None
    )


def recipient_digest(name: str | UUID) -> str:
    """A keyed digest of a recipient's address or user id, stored with the job so that it is found without decryption.

    It is constant per name and can be computed only with JWT_SECRET.
    """
    digest = hmac.digest(crypto.derive_key(_RECIPIENT_LABEL), str(name).encode(), hashlib.sha256)
    return crypto.base64url_encode(digest[:_DIGEST_BYTES])


def cipher() -> AESGCM:
    return AESGCM(crypto.derive_key(_KEY_LABEL))

"""Passkeys and their challenges as the API shows them."""

from __future__ import annotations

from typing import Any

from accounts.models import Passkey
from accounts.passkeys.challenges import StartedCeremony
from authsvc.api.renderers import rfc3339


def challenge(started: StartedCeremony) -> dict[str, Any]:
    return {
        "challenge_id": str(started.challenge_id),
        "options": started.options,
        "expires_at": int(started.expires_at.timestamp()),
    }


def passkey(row: Passkey) -> dict[str, Any]:
    shown = {"id": str(row.id), "created_at": rfc3339(row.created_at)}
    if row.friendly_name:
        shown["friendly_name"] = row.friendly_name
    if row.last_used_at:
        shown["last_used_at"] = rfc3339(row.last_used_at)
    return shown

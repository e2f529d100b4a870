"""Options of WebAuthn ceremonies for the browser, and the state that verifies the response."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from authsvc import conf
from authsvc.security import crypto

ALGORITHMS = (-7, -35, -36, -257, -258, -259, -37, -38, -39, -8)
"""COSE algorithms offered for new credentials, the preferred one first."""
_TIMEOUT = 300_000
"""Milliseconds that the browser waits for its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A credential that the browser may use, or must not create again."""

    id: bytes
    transports: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"type": "public-key", "id": crypto.base64url_encode(self.id)}
        return {**content, "transports": list(self.transports)} if self.transports else content


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceremony:
    """Options of `navigator.credentials` as JSON (WebAuthn Level 3 §5.1.8, §5.1.9), and the state to store."""

    options: dict[str, Any] = field(repr=False)
    state: dict[str, Any] = field(repr=False)


def user_handle(user_id: UUID) -> bytes:
    """The user handle of WebAuthn: the id as text. Changing it would orphan every credential."""
    return str(user_id).encode()


def creation(
    *,
    user_id: UUID,
    name: str,
    display_name: str,
    exclude: Sequence[Descriptor],
    discoverable: bool,
) -> Ceremony:
    """Options for the registration of a credential, which must be discoverable if `discoverable` is set."""
    party = conf.current().webauthn
    handle, challenge = user_handle(user_id), crypto.generate_key()
    parameters = [{"type": "public-key", "alg": algorithm} for algorithm in ALGORITHMS]
    options: dict[str, Any] = {
        "rp": {"name": party.rp_display_name, "id": party.rp_id},
        "user": {"name": name, "displayName": display_name, "id": crypto.base64url_encode(handle)},
        "challenge": challenge,
        "pubKeyCredParams": parameters,
        "timeout": _TIMEOUT,
    }
    if exclude:
        options["excludeCredentials"] = [descriptor.as_json() for descriptor in exclude]
    options["authenticatorSelection"] = {}
    if discoverable:
        options["authenticatorSelection"] = {"residentKey": "required", "userVerification": "preferred"}
        options["attestation"] = "none"
    verification = "preferred" if discoverable else ""
    state = {**_state(challenge, handle=handle, verification=verification), "credParams": parameters}
    return Ceremony(options=options, state=state)


def request(*, user_id: UUID | None = None, allow: Sequence[Descriptor] = ()) -> Ceremony:
    """Options for authentication with one of the allowed credentials, or without a user with any discoverable one."""
    challenge = crypto.generate_key()
    options: dict[str, Any] = {"challenge": challenge, "timeout": _TIMEOUT, "rpId": conf.current().webauthn.rp_id}
    if user_id is None:
        options["userVerification"] = "preferred"
        return Ceremony(options=options, state=_state(challenge, handle=b"", verification="preferred"))
    options["allowCredentials"] = [descriptor.as_json() for descriptor in allow]
    state = _state(challenge, handle=user_handle(user_id), verification="")
    state["allowed_credentials"] = [_base64(descriptor.id) for descriptor in allow]
    return Ceremony(options=options, state=state)


def allowed_credentials(state: dict[str, Any]) -> set[bytes]:
    """The ids of the credentials that a challenge allows; empty if it allows any."""
    return {base64.b64decode(text) for text in state.get("allowed_credentials") or ()}


def owner(state: dict[str, Any]) -> bytes:
    """The user handle of a challenge; empty for a challenge without a user."""
    return base64.b64decode(state.get("user_id") or "")


def _state(challenge: str, *, handle: bytes, verification: str) -> dict[str, Any]:
    return {
        "challenge": challenge,
        "rpId": conf.current().webauthn.rp_id,
        "user_id": _base64(handle),
        "userVerification": verification,
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()

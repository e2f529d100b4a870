"""What a browser is asked to do with an authenticator, and what is remembered of it until the answer comes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from authsvc import conf
from authsvc.security import crypto

ALGORITHMS = (-7, -35, -36, -257, -258, -259, -37, -38, -39, -8)
"""COSE algorithms of the credentials that are asked for, the preferred one first."""
_TIMEOUT = 300_000
"""Milliseconds that a browser gives its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A credential that a browser is to use, or not to make again."""

    id: bytes
    transports: Sequence[str] = ()

    def shown(self) -> dict[str, Any]:
        content: dict[str, Any] = {"type": "public-key", "id": crypto.base64url_encode(self.id)}
        return {**content, "transports": list(self.transports)} if self.transports else content


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceremony:
    """Options of `navigator.credentials` as JSON (WebAuthn Level 3 §5.1.8, §5.1.9), and what to know later."""

    options: dict[str, Any] = field(repr=False)
    state: dict[str, Any] = field(repr=False)


def user_handle(user_id: UUID) -> bytes:
    """How authenticators know a user: the text of the id, whose change would orphan every credential."""
    return str(user_id).encode()


def creation(
    *,
    user_id: UUID,
    name: str,
    display_name: str,
    exclude: Sequence[Descriptor],
    discoverable: bool,
) -> Ceremony:
    """Ask for a new credential; a `discoverable` one is found by its authenticator without being named."""
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
        options["excludeCredentials"] = [each.shown() for each in exclude]
    options["authenticatorSelection"] = {}
    if discoverable:
        options["authenticatorSelection"] = {"residentKey": "required", "userVerification": "preferred"}
        options["attestation"] = "none"
    verification = "preferred" if discoverable else ""
    state = {**_state(challenge, handle=handle, verification=verification), "credParams": parameters}
    return Ceremony(options=options, state=state)


def request(*, user_id: UUID | None = None, allow: Sequence[Descriptor] = ()) -> Ceremony:
    """Ask for the use of a credential: one of those allowed, or of nobody in particular any discoverable one."""
    challenge = crypto.generate_key()
    options: dict[str, Any] = {"challenge": challenge, "timeout": _TIMEOUT, "rpId": conf.current().webauthn.rp_id}
    if user_id is None:
        options["userVerification"] = "preferred"
        return Ceremony(options=options, state=_state(challenge, handle=b"", verification="preferred"))
    options["allowCredentials"] = [each.shown() for each in allow]
    state = _state(challenge, handle=user_handle(user_id), verification="")
    state["allowed_credentials"] = [_base64(each.id) for each in allow]
    return Ceremony(options=options, state=state)


def allowed_credentials(state: dict[str, Any]) -> set[bytes]:
    return {base64.b64decode(text) for text in state.get("allowed_credentials") or ()}


def owner(state: dict[str, Any]) -> bytes:
    """The user handle that a challenge was made for; empty for nobody in particular."""
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

"""WebAuthn ceremonies in forms: the options for the browser's prompt, and the response that the form submits."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import HttpRequest

from accounts.mfa import challenges
from accounts.mfa.factor_types import FactorResponse
from accounts.pages.page import Page
from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from authsvc import conf

_KEY_CHALLENGE = "key_challenge"
"""Name of the cookie's value with the ID of the challenge of a security key."""
_RESPONSE_TYPES = {"create": "create", "get": "request"}
"""Method of `navigator.credentials` → type of the response in the API."""


def has_relying_party() -> bool:
    return not conf.current().webauthn.missing


def passkey_variables(started: StartedCeremony, *, type: str) -> dict[str, str]:
    """The variables of `pages/ceremony.html` for a passkey. `type`: the method of `navigator.credentials`."""
    return {
        "type": type,
        "challenge": str(started.challenge_id),
        "options": orjson.dumps(started.options).decode(),
    }


def read_passkey_response(request: HttpRequest) -> CredentialResponse:
    """The response of the browser to the ceremony of a passkey, in a submitted form."""
    return CredentialResponse(challenge_id=request.POST.get("challenge", ""), credential=_read_credential(request))


def start_key_ceremony(page: Page, factor_id: UUID, *, type: str) -> dict[str, str]:
    """Challenge a security key. Returns the variables of `pages/ceremony.html`."""
    user = page.user
    challenge = challenges.create(page.current, user, factor_id, caller=page.caller, at=page.at)
    page.request.session[_KEY_CHALLENGE] = str(challenge.id)
    options = orjson.dumps(challenge.members["webauthn"]["credential_options"]["publicKey"]).decode()
    return {"type": type, "challenge": "", "options": options}


def read_key_response(request: HttpRequest, *, type: str) -> FactorResponse:
    """The response of a security key to the ceremony of this type, in a submitted form."""
    return FactorResponse(
        challenge_id=UUID(request.session.get(_KEY_CHALLENGE) or "0" * 32),
        webauthn={"type": _RESPONSE_TYPES[type], "credential_response": _read_credential(request)},
    )


def _read_credential(request: HttpRequest) -> Any:
    """The credential in a submitted form, unchecked; None if it is not JSON."""
    try:
        return orjson.loads(request.POST.get("credential", ""))
    except orjson.JSONDecodeError:
        return None

"""Ceremonies of passkeys in forms: the options for the browser's prompt, and the response that the form submits."""

from __future__ import annotations

import orjson
from django.http import HttpRequest

from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from accounts.webauthn import webauthn_responses
from authsvc import conf


def is_enabled() -> bool:
    return conf.current().passkeys.enabled and not conf.current().webauthn.missing


def ceremony_variables(started: StartedCeremony, *, type: str) -> dict[str, str]:
    """The variables of the template. `type` is the method of `navigator.credentials`: `create` or `get`."""
    return {
        "type": type,
        "name": "passkey",
        "challenge": str(started.challenge_id),
        "options": orjson.dumps(started.options).decode(),
    }


def read_response(request: HttpRequest) -> CredentialResponse:
    """The response of the browser, in a submitted form."""
    credential = webauthn_responses.read_credential(request)
    return CredentialResponse(challenge_id=request.POST.get("challenge", ""), credential=credential)

"""Sign-in to the console with a passkey. A second factor of the account is still asked for."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.http import HttpRequest
from django.utils import timezone

from accounts.passkeys import authentication
from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from authsvc import conf
from authsvc.caller import page_caller_of
from authsvc.console import operators
from tokens.sessions import refresh_tokens


def is_enabled() -> bool:
    return conf.current().passkeys.enabled and not conf.current().webauthn.missing


def start_sign_in() -> dict[str, str]:
    """Start a ceremony of `navigator.credentials.get`. Returns the variables of `operator/passkey.html`."""
    return ceremony_variables(authentication.start(at=timezone.now()), type="get")


def ceremony_variables(started: StartedCeremony, *, type: str) -> dict[str, str]:
    """`type` is the method of `navigator.credentials`: `create` or `get`."""
    return {
        "type": type,
        "name": "passkey",
        "challenge": str(started.challenge_id),
        "options": orjson.dumps(started.options).decode(),
    }


def read_response(request: HttpRequest) -> CredentialResponse:
    """The response of the browser, in a submitted form."""
    return CredentialResponse(challenge_id=request.POST.get("challenge", ""), credential=read_credential(request))


def read_credential(request: HttpRequest) -> Any:
    """The credential in a submitted form, unchecked; None if it is not JSON."""
    try:
        return orjson.loads(request.POST.get("credential", ""))
    except orjson.JSONDecodeError:
        return None


def sign_in(request: HttpRequest, *, not_after: datetime, at: datetime) -> UUID:
    """Start a session of the operator whose passkey responded; returns its id. Raises the errors of the API."""
    signed_in = authentication.complete(
        read_response(request), caller=page_caller_of(request), at=at, roles=operators.roles(), not_after=not_after
    )
    # The tokens are discarded: the browser gets the cookie only.
    return refresh_tokens.decode(signed_in.tokens.refresh_token).session_id

"""Security keys as second factor: the ceremonies of the browser, and its responses."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.http import HttpRequest
from django.utils import timezone

from accounts.mfa import challenges
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf
from authsvc.caller import caller_of
from authsvc.console.sign_in import console_session, passkey
from tokens.sessions.users import SignedInUser

_CHALLENGE = "key_challenge"
_RESPONSE_TYPES = {"create": "create", "get": "request"}
"""Method of `navigator.credentials` → type of the response in the API."""


def first_key(user: UserRecord) -> FactorRecord | None:
    """The key to challenge, or None if keys are disabled. Any other key of the user may answer the challenge."""
    if not conf.current().mfa.web_authn_verify_enabled or conf.current().webauthn.missing:
        return None
    keys = (
        factor for factor in user.factors if factor.factor_type == FactorType.WEBAUTHN and factor.status == "verified"
    )
    return next(keys, None)


def start_ceremony(
    request: HttpRequest, current: SignedInUser, user: UserRecord, factor_id: UUID, *, type: str
) -> dict[str, str]:
    """Challenge a key. Returns the variables of `operator/key_form.html`, with the options of WebAuthn Level 3 §5.1.

    `type` is the method of `navigator.credentials`: `create` or `get`.
    """
    challenge = challenges.create(current, user, factor_id, caller=caller_of(request), at=timezone.now())
    console_session.set_value(request, _CHALLENGE, str(challenge.id))
    options = orjson.dumps(challenge.members["webauthn"]["credential_options"]["publicKey"]).decode()
    return {"type": type, "name": "security key", "options": options}


def read_response(request: HttpRequest, *, type: str) -> FactorResponse:
    """The response of the browser to the ceremony of this type, in a submitted form."""
    return FactorResponse(
        challenge_id=console_session.get_id(request, _CHALLENGE),
        webauthn={"type": _RESPONSE_TYPES[type], "credential_response": passkey.read_credential(request)},
    )

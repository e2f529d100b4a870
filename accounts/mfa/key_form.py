"""Ceremonies of security keys in forms: the options for the browser's prompt, and the response that the form submits.

The browser's session holds the ID of the challenge.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import orjson
from django.http import HttpRequest

from accounts.mfa import challenges
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorStatus, FactorType
from accounts.users.records import FactorRecord, UserRecord
from accounts.webauthn import webauthn_responses
from authsvc import conf
from authsvc.caller import Caller
from tokens.sessions.users import SignedInUser

_CHALLENGE = "key_challenge"
_NO_CHALLENGE = UUID(int=0)
_RESPONSE_TYPES = {"create": "create", "get": "request"}
"""Method of `navigator.credentials` → type of the response in the API."""


def first_key(user: UserRecord) -> FactorRecord | None:
    """The key to challenge, or None if keys are disabled. Any other key of the user may answer the challenge."""
    if not conf.current().mfa.web_authn_verify_enabled or conf.current().webauthn.missing:
        return None
    keys = (
        factor
        for factor in user.factors
        if factor.factor_type == FactorType.WEBAUTHN and factor.status == FactorStatus.VERIFIED
    )
    return next(keys, None)


def start_ceremony(
    request: HttpRequest,
    current: SignedInUser,
    user: UserRecord,
    factor_id: UUID,
    *,
    type: str,
    caller: Caller,
    at: datetime,
) -> dict[str, str]:
    """Challenge a key. Returns the variables of the template, with the options of WebAuthn Level 3 §5.1.

    `type` is the method of `navigator.credentials`: `create` or `get`.
    """
    challenge = challenges.create(current, user, factor_id, caller=caller, at=at)
    request.session[_CHALLENGE] = str(challenge.id)
    options = orjson.dumps(challenge.members["webauthn"]["credential_options"]["publicKey"]).decode()
    return {"type": type, "name": "security key", "challenge": "", "options": options}


def read_response(request: HttpRequest, *, type: str) -> FactorResponse:
    """The response of the browser to the ceremony of this type, in a submitted form."""
    stored = request.session.get(_CHALLENGE)
    return FactorResponse(
        challenge_id=UUID(stored) if stored else _NO_CHALLENGE,
        webauthn={"type": _RESPONSE_TYPES[type], "credential_response": webauthn_responses.read_credential(request)},
    )

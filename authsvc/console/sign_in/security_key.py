"""Security keys as second factor of the console's sign-in: the browser's request options and its response."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.http import HttpRequest
from django.utils import timezone

from accounts.mfa import challenges, verification
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf
from authsvc.caller import caller_of
from authsvc.console.sign_in import console_session
from tokens.sessions.users import SignedInUser

_CHALLENGE = "key_challenge"


def first_key(user: UserRecord) -> FactorRecord | None:
    """The key to challenge, or None if keys are disabled. Any other key of the user may answer the challenge."""
    if not conf.current().mfa.web_authn_verify_enabled or conf.current().webauthn.missing:
        return None
    keys = (
        factor for factor in user.factors if factor.factor_type == FactorType.WEBAUTHN and factor.status == "verified"
    )
    return next(keys, None)


def request_options(request: HttpRequest, current: SignedInUser, user: UserRecord, key: FactorRecord) -> str:
    """Challenge a key. Returns the options of `navigator.credentials.get` as JSON (WebAuthn Level 3 §5.1.9)."""
    challenge = challenges.create(current, user, UUID(key.id), caller=caller_of(request), at=timezone.now())
    console_session.set_value(request, _CHALLENGE, str(challenge.id))
    return orjson.dumps(challenge.members["webauthn"]["credential_options"]["publicKey"]).decode()


def verify(
    request: HttpRequest, current: SignedInUser, user: UserRecord, key: FactorRecord, *, credential: str
) -> None:
    """Verify the browser's response (JSON) and step up the session. Raises the errors of verification."""
    try:
        credential_response = orjson.loads(credential)
    except orjson.JSONDecodeError:
        credential_response = None
    response = FactorResponse(
        challenge_id=UUID(console_session.get_value(request, _CHALLENGE) or "0" * 32),
        webauthn={"type": "request", "credential_response": credential_response},
    )
    verification.verify(current, user, UUID(key.id), response, caller=caller_of(request), at=timezone.now())

"""Security keys in the second step of the console's sign-in: what the browser is asked, and what it answers."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.http import HttpRequest

from accounts.mfa import challenges, verification
from accounts.mfa.factor_types import Answer
from accounts.models import FactorType
from accounts.users.records import FactorRecord, UserRecord
from authsvc import clock, conf
from authsvc.api import callers
from authsvc.console import authentication
from tokens.sessions.users import SignedInUser

_CHALLENGE = "key_challenge"


def of(user: UserRecord) -> FactorRecord | None:
    """The key that is challenged, which any other one of the user may answer for; None where none can be asked for."""
    if not conf.current().mfa.web_authn_verify_enabled or conf.current().webauthn.missing:
        return None
    keys = (each for each in user.factors if each.factor_type == FactorType.WEBAUTHN and each.status == "verified")
    return next(keys, None)


def ask(request: HttpRequest, found: SignedInUser, user: UserRecord, key: FactorRecord) -> str:
    """Challenge a key. The options of `navigator.credentials.get` as JSON (WebAuthn Level 3 §5.1.9)."""
    made = challenges.open(found, user, UUID(key.id), caller=callers.caller_of(request), at=clock.now())
    authentication.keep(request, _CHALLENGE, str(made.id))
    return orjson.dumps(made.shown["webauthn"]["credential_options"]["publicKey"]).decode()


def verify(request: HttpRequest, found: SignedInUser, user: UserRecord, key: FactorRecord, *, credential: str) -> None:
    """Raise the session by what the browser has returned, as JSON. Raises the errors of verification."""
    try:
        response = orjson.loads(credential)
    except orjson.JSONDecodeError:
        response = None
    answer = Answer(
        challenge_id=UUID(authentication.kept(request, _CHALLENGE) or "0" * 32),
        webauthn={"type": "request", "credential_response": response},
    )
    verification.verify(found, user, UUID(key.id), answer, caller=callers.caller_of(request), at=clock.now())

"""Requests about passkeys, and a user who has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.models import Passkey, User
from tests.conftest import Api, ApiResponse, read_success
from tests.factories import SignIn, make_session
from tests.fakes.authenticator import Authenticator

ORIGIN = "http://localhost:3000"
PARTY = {"rp_id": "localhost", "rp_display_name": "Example App", "rp_origins": (ORIGIN,)}
CHALLENGE_NOT_FOUND = (400, "webauthn_challenge_not_found", "Challenge not found or already used")
CHALLENGE_EXPIRED = (400, "webauthn_challenge_expired", "Challenge has expired")
MALFORMED = (400, "webauthn_verification_failed", "Invalid credential response")
REFUSED = (400, "webauthn_verification_failed", "Credential verification failed")
NEEDS_AAL2 = (403, "insufficient_aal", "AAL2 session is required to manage passkeys when MFA is enabled")
TOO_MANY = (422, "too_many_passkeys", "Maximum number of passkeys reached")
NOT_FOUND = (404, "validation_failed", "Passkey not found")
BY_SSO = (422, "validation_failed", "SSO users cannot register passkeys")
ANONYMOUS = (403, "no_authorization", "Anonymous user not allowed to perform these actions")


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyOwner:
    """A user with a passkey, and the authenticator that stores it."""

    user: User
    token: str
    device: Authenticator
    passkey: Passkey


def begin(api: Api, token: str, body: Any = None) -> ApiResponse:
    return api.post("/passkeys/registration/options", {} if body is None else body, bearer=token)


def start_registration(api: Api, token: str) -> dict[str, Any]:
    return read_success(begin(api, token))


def complete(api: Api, token: str, challenge_id: object, credential: object) -> ApiResponse:
    body = {"challenge_id": challenge_id, "credential": credential}
    return api.post("/passkeys/registration/verify", body, bearer=token)


def register(api: Api, token: str, device: Authenticator, **changes: Any) -> ApiResponse:
    """Run both steps; the authenticator completes the second."""
    challenge = start_registration(api, token)
    return complete(api, token, challenge["challenge_id"], device.create(challenge["options"], **changes))


def make_owner(api: Api, sign_in: SignIn | None = None, device: Authenticator | None = None) -> PasskeyOwner:
    sign_in, device = sign_in or make_session(), device or Authenticator()
    made = read_success(register(api, sign_in.access_token, device))
    passkey = Passkey.objects.get(id=made["id"])
    return PasskeyOwner(user=sign_in.user, token=sign_in.access_token, device=device, passkey=passkey)


def start_authentication(api: Api, **options: Any) -> dict[str, Any]:
    """The options of a sign-in."""
    return read_success(api.post("/passkeys/authentication/options", **options))


def finish_authentication(api: Api, challenge_id: object, credential: object, **options: Any) -> ApiResponse:
    body = {"challenge_id": challenge_id, "credential": credential}
    return api.post("/passkeys/authentication/verify", body, **options)


def sign_in(api: Api, device: Authenticator, **changes: Any) -> ApiResponse:
    """Run both steps; the authenticator completes the second."""
    challenge = start_authentication(api)
    return finish_authentication(api, challenge["challenge_id"], device.get(challenge["options"], **changes))

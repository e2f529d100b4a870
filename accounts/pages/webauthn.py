"""Passkeys and security keys: the ceremonies of the browser, and its responses in submitted forms."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.http import HttpRequest
from django.utils.translation import gettext

from accounts.mfa import challenges
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorStatus, FactorType
from accounts.pages.page import Page
from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf

_CHALLENGE = "key_challenge"
_RESPONSE_TYPES = {"create": "create", "get": "request"}
"""Method of `navigator.credentials` → type of the response in the API."""


def has_passkeys() -> bool:
    return conf.current().passkeys.enabled and not conf.current().webauthn.missing


def passkey_ceremony(started: StartedCeremony, *, type: str) -> dict[str, str]:
    """The variables of `pages/webauthn.html`; `type` is the method of `navigator.credentials`: `create` or `get`."""
    return {
        "type": type,
        "challenge": str(started.challenge_id),
        "options": orjson.dumps(started.options).decode(),
        "ready": gettext("Have your passkey ready."),
        "button": gettext("Use passkey"),
    }


def read_passkey(request: HttpRequest) -> CredentialResponse:
    """The response of the browser to the ceremony of a passkey."""
    return CredentialResponse(challenge_id=request.POST.get("challenge", ""), credential=_read_credential(request))


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


def key_ceremony(page: Page, user: UserRecord, factor_id: UUID, *, type: str) -> dict[str, str]:
    """Challenge a security key. Returns the variables of `pages/webauthn.html`."""
    challenge = challenges.create(page.current, user, factor_id, caller=page.caller, at=page.at)
    page.request.session[_CHALLENGE] = str(challenge.id)
    return {
        "type": type,
        "options": orjson.dumps(challenge.members["webauthn"]["credential_options"]["publicKey"]).decode(),
        "ready": gettext("Have your security key ready."),
        "button": gettext("Use security key"),
    }


def read_key(request: HttpRequest, *, type: str) -> FactorResponse:
    """The response of the browser to the ceremony of a security key of this type."""
    return FactorResponse(
        challenge_id=UUID(request.session.get(_CHALLENGE) or "0" * 32),
        webauthn={"type": _RESPONSE_TYPES[type], "credential_response": _read_credential(request)},
    )


def _read_credential(request: HttpRequest) -> Any:
    """The credential, unchecked; None if it is not JSON."""
    try:
        return orjson.loads(request.POST.get("credential", ""))
    except orjson.JSONDecodeError:
        return None

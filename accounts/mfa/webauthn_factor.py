"""WebAuthn authenticators as a second factor."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.mfa import errors
from accounts.mfa.factor_types import FactorResponse, NewChallenge, Proof, VerificationAttempt
from accounts.models import Factor, FactorStatus, FactorType
from accounts.users.records import UserRecord
from accounts.webauthn import ceremonies, verification, webauthn_responses
from accounts.webauthn.ceremonies import Descriptor
from accounts.webauthn.verification import NewCredential
from accounts.webauthn.webauthn_responses import Creation
from authsvc import conf
from authsvc.api.renderers import rfc3339
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure

logger = logging.getLogger(__name__)

_CREATE, _REQUEST = "create", "request"


class WebAuthn:
    method = "mfa/webauthn"
    deletes_used_challenges = True
    is_guessable = False
    wrong_code = errors.WebAuthnResponseInvalid

    def require_enrolment_enabled(self) -> None:
        if not conf.current().mfa.web_authn_enroll_enabled:
            raise errors.WebAuthnEnrolmentDisabled

    def require_verification_enabled(self) -> None:
        if not conf.current().mfa.web_authn_verify_enabled:
            raise errors.WebAuthnVerificationDisabled

    def check_response(self, response: FactorResponse) -> None:
        self.require_verification_enabled()
        if response.webauthn is None:
            raise errors.WebAuthnResponseMissing
        if response.webauthn.get("type") not in (_CREATE, _REQUEST):
            raise errors.WebAuthnTypeUnknown
        if response.webauthn.get("credential_response") is None:
            raise errors.CredentialResponseMissing

    def check_challenge_allowed(self, user: UserRecord, *, phone: str, channel: str, caller: Caller) -> None:
        _require_relying_party()

    def create_challenge(
        self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime
    ) -> NewChallenge:
        credentials = list(_credentials(user.id).values())
        if factor.status == FactorStatus.UNVERIFIED:
            type = _CREATE
            exclude = [Descriptor(id=_id(credential), transports=("usb", "nfc")) for credential in credentials]
            ceremony = ceremonies.creation(
                user_id=user.id, name=user.email, display_name=user.email, exclude=exclude, discoverable=False
            )
        else:
            type = _REQUEST
            allow = [
                Descriptor(id=_id(credential), transports=credential["transport"] or ()) for credential in credentials
            ]
            ceremony = ceremonies.request(user_id=user.id, allow=allow)
        members = {"type": type, "credential_options": {"publicKey": ceremony.options}}
        return NewChallenge(session_data=ceremony.state, members={"webauthn": members})

    def verify(self, attempt: VerificationAttempt) -> Proof:
        _require_relying_party()
        is_new = attempt.factor.status == FactorStatus.UNVERIFIED
        response: Mapping[str, Any] = attempt.response.webauthn or {}
        if response["type"] != (_CREATE if is_new else _REQUEST):
            raise errors.WebAuthnResponseInvalid
        try:
            content, proof = _verify_creation(attempt) if is_new else _verify_assertion(attempt)
        except webauthn_responses.MalformedCredential:
            raise errors.CredentialResponseMalformed from None
        except verification.CredentialRejected:
            raise errors.WebAuthnResponseInvalid from None
        challenge = {
            "id": str(attempt.challenge.id),
            "created_at": rfc3339(attempt.challenge.created_at),
            "web_authn_session_data": attempt.challenge.web_authn_session_data,
        }
        last = {"challenge": challenge, "type": response["type"], "credential_response": content}

        def changes(factor: Factor) -> Mapping[str, Any]:
            return {**proof.changes(factor), "last_webauthn_challenge_data": last}

        return Proof(factor_id=proof.factor_id, changes=changes)


def _verify_creation(attempt: VerificationAttempt) -> tuple[Mapping[str, Any], Proof]:
    creation = webauthn_responses.parse_creation(_response(attempt))
    credential = verification.verify_creation(creation, state=_state(attempt), user_id=attempt.user.id)
    columns = {"web_authn_credential": _record(creation, credential), "web_authn_aaguid": credential.aaguid}

    def changes(factor: Factor) -> Mapping[str, Any]:
        if factor.status != FactorStatus.UNVERIFIED:
            raise errors.WebAuthnResponseInvalid  # another credential has been registered
        return columns

    return creation.content, Proof(factor_id=attempt.factor.id, changes=changes)


def _verify_assertion(attempt: VerificationAttempt) -> tuple[Mapping[str, Any], Proof]:
    """Any verified credential of the user is accepted, as long as all credentials in the challenge are still theirs.

    The proof names the factor that the credential belongs to, whichever factor was challenged.
    """
    assertion = webauthn_responses.parse_assertion(_response(attempt))
    state, user_id = _state(attempt), attempt.user.id
    owners = _credentials(user_id)
    owner_by_id = {_id(credential): (factor_id, credential) for factor_id, credential in owners.items()}
    allowed = ceremonies.allowed_credentials(state)
    if assertion.raw_id not in allowed or not allowed <= owner_by_id.keys():
        raise verification.CredentialRejected("a credential that the challenge does not allow")
    factor_id, credential = owner_by_id[assertion.raw_id]
    count = verification.verify_assertion(
        assertion,
        state=state,
        user_id=user_id,
        public_key=base64.b64decode(credential["publicKey"]),
        is_backup_eligible=bool(credential["flags"]["backupEligible"]),
    )

    def changes(_: Factor) -> Mapping[str, Any]:
        stored = _credentials(user_id)
        if factor_id not in stored or not allowed <= {_id(credential) for credential in stored.values()}:
            raise errors.WebAuthnResponseInvalid  # removed since the first read
        _count(factor_id, stored[factor_id], count)
        return {}

    return assertion.content, Proof(factor_id=factor_id, changes=changes)


def _count(factor_id: UUID, credential: dict[str, Any], count: int) -> None:
    """Store the sign count of a key. Raises WebAuthnResponseInvalid where it has not grown."""
    authenticator = credential["authenticator"]
    if not verification.is_sign_count_valid(count, previous=authenticator["signCount"]):
        logger.warning(
            "a security key may have been cloned: its sign count did not grow", extra={"factor_id": factor_id}
        )
        raise errors.WebAuthnResponseInvalid
    counted = {**credential, "authenticator": {**authenticator, "signCount": count}}
    Factor.objects.filter(id=factor_id).update(web_authn_credential=counted)


def _credentials(user_id: UUID) -> dict[UUID, dict[str, Any]]:
    """The stored credentials of the user's verified factors by factor id, oldest first."""
    factors = Factor.objects.filter(
        user_id=user_id, factor_type=FactorType.WEBAUTHN, status=FactorStatus.VERIFIED
    ).order_by("created_at", "id")
    rows = factors.values_list("id", "web_authn_credential")
    return {factor_id: credential for factor_id, credential in rows if credential}


def _id(credential: Mapping[str, Any]) -> bytes:
    return base64.b64decode(credential["id"])


def _record(creation: Creation, credential: NewCredential) -> dict[str, Any]:
    """The stored form of a credential, in the layout of imported ones; binary values in base64."""
    client_data = creation.client_data_json
    return {
        "id": _base64(credential.id),
        "publicKey": _base64(credential.public_key),
        "attestationType": credential.attestation_format,
        "transport": list(credential.transports) or None,
        "flags": {
            "userPresent": True,
            "userVerified": credential.is_user_verified,
            "backupEligible": credential.is_backup_eligible,
            "backupState": credential.is_backed_up,
        },
        "authenticator": {
            "AAGUID": _base64(credential.aaguid.bytes),
            "signCount": credential.sign_count,
            "cloneWarning": False,
            "attachment": creation.attachment,
        },
        "attestation": {
            "clientDataJSON": _base64(client_data),
            "clientDataHash": _base64(hashlib.sha256(client_data).digest()),
            "authenticatorData": _base64(creation.attestation["authData"]),
            "publicKeyAlgorithm": credential.algorithm,
            "object": _base64(creation.attestation_object),
        },
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _response(attempt: VerificationAttempt) -> object:
    return (attempt.response.webauthn or {}).get("credential_response")


def _state(attempt: VerificationAttempt) -> dict[str, Any]:
    return attempt.challenge.web_authn_session_data or {}


def _require_relying_party() -> None:
    if conf.current().webauthn.missing:
        raise UnexpectedFailure

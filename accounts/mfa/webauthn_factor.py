"""WebAuthn authenticators as a kind of factor."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.mfa import errors
from accounts.mfa.factor_types import Answer, Attempt, Opened, Proof
from accounts.models import Factor, FactorStatus, FactorType
from accounts.users.records import UserRecord
from accounts.webauthn import ceremonies, verification, webauthn_responses
from accounts.webauthn.ceremonies import Descriptor
from accounts.webauthn.verification import NewCredential
from accounts.webauthn.webauthn_responses import Creation
from authsvc import clock, conf
from authsvc.errors import UnexpectedFailure

logger = logging.getLogger(__name__)

_CREATE, _REQUEST = "create", "request"


class WebAuthn:
    method = "mfa/webauthn"
    forgets_challenges = True
    is_guessable = False

    def check_enrolment(self) -> None:
        if not conf.current().mfa.web_authn_enroll_enabled:
            raise errors.WebAuthnEnrolmentDisabled

    def check_verification(self) -> None:
        if not conf.current().mfa.web_authn_verify_enabled:
            raise errors.WebAuthnVerificationDisabled

    def check_answer(self, answer: Answer) -> None:
        self.check_verification()
        if answer.webauthn is None:
            raise errors.WebAuthnAnswerMissing
        if answer.webauthn.get("type") not in (_CREATE, _REQUEST):
            raise errors.WebAuthnTypeUnknown
        if answer.webauthn.get("credential_response") is None:
            raise errors.CredentialResponseMissing

    def admit(self, user: UserRecord, *, phone: str, channel: str) -> None:
        _require_relying_party()

    def open(self, user: UserRecord, factor: Factor, *, challenge_id: UUID, channel: str, at: datetime) -> Opened:
        known = list(_credentials(user.id).values())
        if factor.status == FactorStatus.UNVERIFIED:
            type = _CREATE
            exclude = [Descriptor(id=_id(each), transports=("usb", "nfc")) for each in known]
            ceremony = ceremonies.creation(
                user_id=user.id, name=user.email, display_name=user.email, exclude=exclude, discoverable=False
            )
        else:
            type = _REQUEST
            allow = [Descriptor(id=_id(each), transports=each["transport"] or ()) for each in known]
            ceremony = ceremonies.request(user_id=user.id, allow=allow)
        shown = {"type": type, "credential_options": {"publicKey": ceremony.options}}
        return Opened(session_data=ceremony.state, shown={"webauthn": shown})

    def prove(self, attempt: Attempt) -> Proof:
        _require_relying_party()
        is_new = attempt.factor.status == FactorStatus.UNVERIFIED
        given: Mapping[str, Any] = attempt.answer.webauthn or {}
        if given["type"] != (_CREATE if is_new else _REQUEST):
            raise errors.WebAuthnResponseInvalid
        try:
            content, proof = _created(attempt) if is_new else _used(attempt)
        except webauthn_responses.Malformed:
            raise errors.CredentialResponseMalformed from None
        except verification.Refused:
            raise errors.WebAuthnResponseInvalid from None
        challenge = {
            "id": str(attempt.challenge.id),
            "created_at": clock.rfc3339(attempt.challenge.created_at),
            "web_authn_session_data": attempt.challenge.web_authn_session_data,
        }
        last = {"challenge": challenge, "type": given["type"], "credential_response": content}

        def settle(factor: Factor) -> Mapping[str, Any]:
            return {**proof.settle(factor), "last_webauthn_challenge_data": last}

        return Proof(factor_id=proof.factor_id, settle=settle)


def _created(attempt: Attempt) -> tuple[Mapping[str, Any], Proof]:
    creation = webauthn_responses.parse_creation(_response(attempt))
    made = verification.verify_creation(creation, state=_state(attempt), user_id=attempt.user.id)
    columns = {"web_authn_credential": _record(creation, made), "web_authn_aaguid": made.aaguid}

    def settle(factor: Factor) -> Mapping[str, Any]:
        if factor.status != FactorStatus.UNVERIFIED:
            raise errors.WebAuthnResponseInvalid  # another credential was first
        return columns

    return creation.content, Proof(factor_id=attempt.factor.id, settle=settle)


def _used(attempt: Attempt) -> tuple[Mapping[str, Any], Proof]:
    """Any verified credential of the user will do, as long as all of those that were asked for are still theirs.

    What was shown is the factor that the credential belongs to, whichever was challenged.
    """
    assertion = webauthn_responses.parse_assertion(_response(attempt))
    state, user_id = _state(attempt), attempt.user.id
    owners = _credentials(user_id)
    known = {_id(credential): (factor_id, credential) for factor_id, credential in owners.items()}
    allowed = ceremonies.allowed_credentials(state)
    if assertion.raw_id not in allowed or not allowed <= known.keys():
        raise verification.Refused("a credential that was not asked for")
    factor_id, credential = known[assertion.raw_id]
    count = verification.verify_assertion(
        assertion,
        state=state,
        user_id=user_id,
        public_key=base64.b64decode(credential["publicKey"]),
        is_backup_eligible=bool(credential["flags"]["backupEligible"]),
    )

    def settle(_: Factor) -> Mapping[str, Any]:
        present = _credentials(user_id)
        if factor_id not in present or not allowed <= {_id(each) for each in present.values()}:
            raise errors.WebAuthnResponseInvalid  # given back just now
        _count(factor_id, present[factor_id], count)
        return {}

    return assertion.content, Proof(factor_id=factor_id, settle=settle)


def _count(factor_id: UUID, credential: dict[str, Any], count: int) -> None:
    """Remember how often a key was used. Raises WebAuthnResponseInvalid where that is not more than before."""
    authenticator = credential["authenticator"]
    if not verification.has_grown(count, since=authenticator["signCount"]):
        logger.warning("a security key may have been cloned: its count did not grow", extra={"factor_id": factor_id})
        raise errors.WebAuthnResponseInvalid
    counted = {**credential, "authenticator": {**authenticator, "signCount": count}}
    Factor.objects.filter(id=factor_id).update(web_authn_credential=counted)


def _credentials(user_id: UUID) -> dict[UUID, dict[str, Any]]:
    """The stored credentials of the user's verified factors by the ids of these, oldest first."""
    factors = Factor.objects.filter(
        user_id=user_id, factor_type=FactorType.WEBAUTHN, status=FactorStatus.VERIFIED
    ).order_by("created_at", "id")
    found = factors.values_list("id", "web_authn_credential")
    return {factor_id: credential for factor_id, credential in found if credential}


def _id(credential: Mapping[str, Any]) -> bytes:
    return base64.b64decode(credential["id"])


def _record(creation: Creation, made: NewCredential) -> dict[str, Any]:
    """A credential as it is stored, in the layout of imported ones; binary values in base64."""
    client_data = creation.client_data_json
    return {
        "id": _base64(made.id),
        "publicKey": _base64(made.public_key),
        "attestationType": made.attestation_format,
        "transport": list(made.transports) or None,
        "flags": {
            "userPresent": True,
            "userVerified": made.is_user_verified,
            "backupEligible": made.is_backup_eligible,
            "backupState": made.is_backed_up,
        },
        "authenticator": {
            "AAGUID": _base64(made.aaguid.bytes),
            "signCount": made.sign_count,
            "cloneWarning": False,
            "attachment": creation.attachment,
        },
        "attestation": {
            "clientDataJSON": _base64(client_data),
            "clientDataHash": _base64(hashlib.sha256(client_data).digest()),
            "authenticatorData": _base64(creation.attestation["authData"]),
            "publicKeyAlgorithm": made.algorithm,
            "object": _base64(creation.attestation_object),
        },
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _response(attempt: Attempt) -> object:
    return (attempt.answer.webauthn or {}).get("credential_response")


def _state(attempt: Attempt) -> dict[str, Any]:
    return attempt.challenge.web_authn_session_data or {}


def _require_relying_party() -> None:
    if conf.current().webauthn.missing:
        raise UnexpectedFailure

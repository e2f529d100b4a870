"""/factors: second factors and recovery codes of the signed-in user."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts.mfa import challenges, enrolment, errors, recovery_codes, removal, schemas, verification
from accounts.mfa.challenges import CreatedChallenge
from accounts.mfa.enrolment import EnrolmentRequest, EnrolmentResult
from accounts.mfa.factor_types import FactorResponse
from accounts.mfa.schemas import ChallengeInput, FactorAnswerInput, FactorInput, RecoveryCodeInput
from accounts.models import FactorType
from accounts.users import identifiers
from accounts.users.queries import get_user_record
from accounts.users.records import FactorRecord, UserRecord
from authsvc.api import parsing, throttling
from authsvc.api.openapi.document import document
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from authsvc.messaging import MessageNotAccepted
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.grants import token_response
from tokens.api.permissions import IsNotAnonymous, IsSignedIn
from tokens.api.schemas import Session
from tokens.sessions.errors import TooManyConcurrentRefreshes


class _Endpoint(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNotAnonymous)


class FactorsView(_Endpoint):
    @document(
        body=FactorInput,
        responses={200: schemas.EnrolledFactor},
        errors=(
            errors.FactorTypeUnknown,
            errors.FactorNameTooLong,
            errors.FactorNameTaken,
            errors.IssuerTooLong,
            errors.FactorPhoneMissing,
            account_errors.PhoneInvalid,
            errors.FactorPhoneTaken,
            errors.TooManyFactors,
            errors.FactorNeedsAal2,
            errors.TotpEnrolmentDisabled,
            errors.PhoneEnrolmentDisabled,
            errors.WebAuthnEnrolmentDisabled,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start the enrolment of a second factor: an authenticator app, a phone or a security key.

        The factor counts after its first verification. A user with a verified factor needs a session at `aal2`.
        """
        signed_in = authentication.get_signed_in_user(request)
        body = parsing.parse_body(request, FactorInput)
        enrolment_request = EnrolmentRequest(
            factor_type=body.factor_type or "",
            friendly_name=body.friendly_name or "",
            issuer=body.issuer or "",
            phone=body.phone or "",
        )
        factor = enrolment.enroll(
            signed_in, get_user_record(signed_in), enrolment_request, caller=request.caller, at=timezone.now()
        )
        return Response(_render_enrolled_factor(factor))


class FactorView(_Endpoint):
    @document(
        responses={200: schemas.RemovedFactor},
        errors=(*errors.FACTOR_PATH, errors.UnenrolmentNeedsAal2, MessageNotAccepted),
    )
    def delete(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Remove a second factor. Sessions that it has stepped up return to `aal1`."""
        signed_in = authentication.get_signed_in_user(request)
        user = get_user_record(signed_in)
        factor = _factor(user, factor_id)
        removal.unenroll(signed_in, user, UUID(factor.id), caller=request.caller, at=timezone.now())
        return Response({"id": factor.id})


class ChallengeView(_Endpoint):
    @document(
        body=ChallengeInput,
        body_optional=True,
        responses={200: schemas.FactorChallenge},
        errors=(
            *errors.FACTOR_PATH,
            *errors.VERIFICATION_DISABLED,
            *account_errors.SMS_REQUEST_ERRORS,
            RequestRateExceeded,
        ),
    )
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Challenge a second factor. A phone receives a code by SMS."""
        signed_in = authentication.get_signed_in_user(request)
        user = get_user_record(signed_in)
        factor = _factor(user, factor_id)
        throttling.check(Bucket.FACTOR_CHALLENGE, request)
        channel = ""
        if factor.factor_type != FactorType.TOTP:
            channel = parsing.parse_body(request, ChallengeInput).channel or ""
        challenge = challenges.create(
            signed_in, user, UUID(factor.id), channel=channel, caller=request.caller, at=timezone.now()
        )
        return Response(_render_challenge(challenge))


class VerifyFactorView(_Endpoint):
    @document(
        body=FactorAnswerInput,
        responses={200: Session},
        errors=(
            *errors.FACTOR_PATH,
            *errors.VERIFICATION_DISABLED,
            RequestRateExceeded,
            MessageNotAccepted,
            TooManyConcurrentRefreshes,
            errors.FactorCodeMissing,
            errors.FactorChallengeNotFound,
            errors.FactorChallengeAddressMismatch,
            errors.FactorChallengeExpired,
            errors.FactorNeedsAal2,
            errors.TotpCodeInvalid,
            errors.FactorAttemptRejected,
            errors.PhoneCodeInvalid,
            account_errors.CodeExpired,
            errors.WebAuthnResponseMissing,
            errors.WebAuthnTypeUnknown,
            errors.CredentialResponseMissing,
            errors.CredentialResponseMalformed,
            errors.WebAuthnResponseInvalid,
        ),
    )
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Verify a challenge, from the IP address that requested it, and step up the session to `aal2`.

        Earlier refresh tokens become invalid, and other sessions of the user below `aal2` end.
        """
        signed_in = authentication.get_signed_in_user(request)
        user = get_user_record(signed_in)
        factor = _factor(user, factor_id)
        throttling.check(Bucket.FACTOR_VERIFY, request)
        body = parsing.parse_body(request, FactorAnswerInput)
        response = FactorResponse(
            challenge_id=body.challenge_id or UUID(int=0), code=body.code or "", webauthn=body.webauthn
        )
        result = verification.verify(
            signed_in, user, UUID(factor.id), response, caller=request.caller, at=timezone.now()
        )
        return Response(token_response(result.tokens, user=result.user))


class RecoveryCodesView(_Endpoint):
    impersonated_methods = frozenset({"get"})

    @document(responses={200: schemas.RemainingCodes}, errors=(errors.RecoveryCodesDisabled,))
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Return the number of recovery codes that are left."""
        return Response(
            {"remaining": recovery_codes.count_remaining(get_user_record(authentication.get_signed_in_user(request)))}
        )

    @document(
        responses={200: schemas.RecoveryCodes},
        errors=(errors.RecoveryCodesDisabled, errors.RecoveryCodesNeedFactor, errors.RecoveryCodesNeedAal2),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create ten recovery codes, which replace the earlier ones."""
        signed_in = authentication.get_signed_in_user(request)
        codes = recovery_codes.create(signed_in, get_user_record(signed_in), caller=request.caller, at=timezone.now())
        return Response({"codes": codes})


class VerifyRecoveryCodeView(_Endpoint):
    @document(
        body=RecoveryCodeInput,
        responses={200: Session},
        errors=(
            RequestRateExceeded,
            MessageNotAccepted,
            TooManyConcurrentRefreshes,
            errors.RecoveryCodesDisabled,
            errors.FactorCodeMissing,
            errors.RecoveryCodeInvalid,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Use up a recovery code in place of a lost factor and step up the session to `aal2`."""
        signed_in = authentication.get_signed_in_user(request)
        throttling.check(Bucket.FACTOR_VERIFY, request)
        body = parsing.parse_body(request, RecoveryCodeInput)
        result = recovery_codes.verify(
            signed_in, get_user_record(signed_in), code=body.code or "", caller=request.caller, at=timezone.now()
        )
        return Response(token_response(result.tokens, user=result.user))


def _factor(user: UserRecord, text: str) -> FactorRecord:
    """The user's factor named in the path. Raises FactorIdNotAUuid or FactorNotFound."""
    factor_id = identifiers.uuid(text)
    if factor_id is None:
        raise errors.FactorIdNotAUuid
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise errors.FactorNotFound


def _render_enrolled_factor(factor: EnrolmentResult) -> dict[str, Any]:
    members: dict[str, Any] = {"id": str(factor.id), "type": factor.factor_type, "friendly_name": factor.friendly_name}
    if factor.totp is not None:
        members["totp"] = {"qr_code": factor.totp.qr_code, "secret": factor.totp.secret, "uri": factor.totp.uri}
    if factor.factor_type == FactorType.PHONE:
        members["phone"] = factor.phone
    return members


def _render_challenge(challenge: CreatedChallenge) -> dict[str, Any]:
    return {
        "id": str(challenge.id),
        "type": challenge.factor_type,
        "expires_at": int(challenge.expires_at.timestamp()),
        **challenge.members,
    }

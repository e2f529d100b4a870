"""/factors: second factors of the signed-in user, and their recovery codes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from rest_framework.response import Response

from accounts import error_sets
from accounts import errors as account_errors
from accounts.mfa import challenges, enrolment, errors, recovery_codes, removal, schemas, verification
from accounts.mfa.challenges import Challenged
from accounts.mfa.enrolment import Enrolled, Wish
from accounts.mfa.factor_types import Answer as FactorAnswer
from accounts.mfa.schemas import ChallengeInput, FactorAnswerInput, FactorInput, RecoveryCodeInput
from accounts.models import FactorType
from accounts.users import identifiers
from accounts.users.records import FactorRecord, UserRecord
from accounts.users.subjects import own
from authsvc import clock
from authsvc.api import parsing, throttling
from authsvc.api.openapi.document import document
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from authsvc.messaging import MessageNotAccepted
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.payloads import token_response
from tokens.api.permissions import IsNoVisitor, IsSignedIn
from tokens.api.schemas import Session
from tokens.errors import TooManyConcurrentRefreshes


class _Endpoint(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)


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
        """Begin the enrolment of a second factor: an authenticator app, a phone or a security key.

        It counts from its first verification on. A user who has a verified factor needs a session at `aal2`.
        """
        signed_in = authentication.user_of(request)
        body = parsing.parse_body(request, FactorInput)
        wish = Wish(
            factor_type=body.factor_type or "",
            friendly_name=body.friendly_name or "",
            issuer=body.issuer or "",
            phone=body.phone or "",
        )
        made = enrolment.enroll(signed_in, own(signed_in), wish, caller=request.caller, at=clock.now())
        return Response(_enrolled(made))


class FactorView(_Endpoint):
    @document(
        responses={200: schemas.RemovedFactor},
        errors=(*errors.FACTOR_PATH, errors.UnenrolmentNeedsAal2, MessageNotAccepted),
    )
    def delete(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Take a second factor away; sessions that it has raised are at `aal1` again."""
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        removal.unenroll(signed_in, user, UUID(factor.id), caller=request.caller, at=clock.now())
        return Response({"id": factor.id})


class ChallengeView(_Endpoint):
    @document(
        body=ChallengeInput,
        body_optional=True,
        responses={200: schemas.FactorChallenge},
        errors=(
            *errors.FACTOR_PATH,
            *errors.VERIFICATION_DISABLED,
            *error_sets.SMS_REQUEST,
            RequestRateExceeded,
        ),
    )
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Ask for a second factor; a phone is texted a code."""
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        throttling.check(Bucket.FACTOR_CHALLENGE, request)
        channel = ""
        if factor.factor_type != FactorType.TOTP:
            channel = parsing.parse_body(request, ChallengeInput).channel or ""
        made = challenges.open(signed_in, user, UUID(factor.id), channel=channel, caller=request.caller, at=clock.now())
        return Response(_challenged(made))


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
            errors.FactorChallengeElsewhere,
            errors.FactorChallengeExpired,
            errors.FactorNeedsAal2,
            errors.TotpCodeInvalid,
            errors.PhoneCodeInvalid,
            account_errors.CodeExpired,
            errors.WebAuthnAnswerMissing,
            errors.WebAuthnTypeUnknown,
            errors.CredentialResponseMissing,
            errors.CredentialResponseMalformed,
            errors.WebAuthnResponseInvalid,
        ),
    )
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        """Answer a challenge, from the address it was made from, which raises the session to `aal2`.

        Refresh tokens from before are dead, and other sessions of the user below `aal2` end.
        """
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        throttling.check(Bucket.FACTOR_VERIFY, request)
        body = parsing.parse_body(request, FactorAnswerInput)
        answer = FactorAnswer(
            challenge_id=body.challenge_id or UUID(int=0), code=body.code or "", webauthn=body.webauthn
        )
        done = verification.verify(signed_in, user, UUID(factor.id), answer, caller=request.caller, at=clock.now())
        return Response(token_response(done.tokens, subject=done.user))


class RecoveryCodesView(_Endpoint):
    @document(responses={200: schemas.RemainingCodes}, errors=(errors.RecoveryCodesDisabled,))
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Tell how many recovery codes are left."""
        return Response({"remaining": recovery_codes.remaining(own(authentication.user_of(request)))})

    @document(
        responses={200: schemas.RecoveryCodes},
        errors=(errors.RecoveryCodesDisabled, errors.RecoveryCodesNeedFactor, errors.RecoveryCodesNeedAal2),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make ten new recovery codes in place of those before."""
        signed_in = authentication.user_of(request)
        codes = recovery_codes.create(signed_in, own(signed_in), caller=request.caller, at=clock.now())
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
        """Use a recovery code up in place of a lost factor, which raises the session to `aal2`."""
        signed_in = authentication.user_of(request)
        throttling.check(Bucket.FACTOR_VERIFY, request)
        body = parsing.parse_body(request, RecoveryCodeInput)
        done = recovery_codes.verify(
            signed_in, own(signed_in), code=body.code or "", caller=request.caller, at=clock.now()
        )
        return Response(token_response(done.tokens, subject=done.user))


def _factor(user: UserRecord, text: str) -> FactorRecord:
    """The user's own factor named in the path. Raises FactorIdNotAUuid or FactorNotFound."""
    factor_id = identifiers.uuid(text)
    if factor_id is None:
        raise errors.FactorIdNotAUuid
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise errors.FactorNotFound


def _enrolled(made: Enrolled) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": str(made.id), "type": made.factor_type, "friendly_name": made.friendly_name}
    if made.seed is not None:
        shown["totp"] = {"qr_code": made.seed.qr_code, "secret": made.seed.secret, "uri": made.seed.uri}
    if made.factor_type == FactorType.PHONE:
        shown["phone"] = made.phone
    return shown


def _challenged(made: Challenged) -> dict[str, Any]:
    return {
        "id": str(made.id),
        "type": made.factor_type,
        "expires_at": int(made.expires_at.timestamp()),
        **made.shown,
    }

"""/factors: second factors of the signed-in user, and their recovery codes."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse

from accounts import errors, identifiers, payloads
from accounts.inputs import ChallengeInput, FactorAnswerInput, FactorInput, RecoveryCodeInput
from accounts.models import FactorType
from accounts.records import FactorRecord, UserRecord
from accounts.services.factors import challenges, enrolment, recovery, removal, verification
from accounts.services.factors.enrolment import Wish
from accounts.services.factors.kinds import Answer as FactorAnswer
from accounts.subjects import own
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import authentication
from tokens.authentication import BearerAuthentication
from tokens.payloads import token_response
from tokens.permissions import IsNoVisitor, IsSignedIn


class _Endpoint(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)


class FactorsView(_Endpoint):
    def post(self, request: ServiceRequest) -> HttpResponse:
        signed_in = authentication.user_of(request)
        body = inputs.parse(request.http, FactorInput)
        wish = Wish(
            factor_type=body.factor_type or "",
            friendly_name=body.friendly_name or "",
            issuer=body.issuer or "",
            phone=body.phone or "",
        )
        made = enrolment.enroll(signed_in, own(signed_in), wish, caller=request.caller, at=clock.now())
        return Answer(payloads.enrolled(made))


class FactorView(_Endpoint):
    def delete(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        removal.unenroll(signed_in, user, UUID(factor.id), caller=request.caller, at=clock.now())
        return Answer({"id": factor.id})


class ChallengeView(_Endpoint):
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        self.throttle(Bucket.FACTOR_CHALLENGE, request.http)
        channel = ""
        if factor.factor_type != FactorType.TOTP:
            channel = inputs.parse(request.http, ChallengeInput).channel or ""
        made = challenges.open(signed_in, user, UUID(factor.id), channel=channel, caller=request.caller, at=clock.now())
        return Answer(payloads.challenged(made))


class VerifyFactorView(_Endpoint):
    def post(self, request: ServiceRequest, factor_id: str) -> HttpResponse:
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        factor = _factor(user, factor_id)
        self.throttle(Bucket.FACTOR_VERIFY, request.http)
        body = inputs.parse(request.http, FactorAnswerInput)
        answer = FactorAnswer(
            challenge_id=body.challenge_id or UUID(int=0), code=body.code or "", webauthn=body.webauthn
        )
        done = verification.verify(signed_in, user, UUID(factor.id), answer, caller=request.caller, at=clock.now())
        return Answer(token_response(done.tokens, subject=done.user))


class RecoveryCodesView(_Endpoint):
    def get(self, request: ServiceRequest) -> HttpResponse:
        return Answer({"remaining": recovery.remaining(own(authentication.user_of(request)))})

    def post(self, request: ServiceRequest) -> HttpResponse:
        signed_in = authentication.user_of(request)
        codes = recovery.create(signed_in, own(signed_in), caller=request.caller, at=clock.now())
        return Answer({"codes": codes})


class VerifyRecoveryCodeView(_Endpoint):
    def post(self, request: ServiceRequest) -> HttpResponse:
        signed_in = authentication.user_of(request)
        self.throttle(Bucket.FACTOR_VERIFY, request.http)
        body = inputs.parse(request.http, RecoveryCodeInput)
        done = recovery.verify(signed_in, own(signed_in), code=body.code or "", caller=request.caller, at=clock.now())
        return Answer(token_response(done.tokens, subject=done.user))


def _factor(user: UserRecord, text: str) -> FactorRecord:
    """The user's own factor named in the path. Raises FactorIdNotAUuid or FactorNotFound."""
    factor_id = identifiers.uuid(text)
    if factor_id is None:
        raise errors.FactorIdNotAUuid
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise errors.FactorNotFound

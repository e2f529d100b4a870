"""POST /signup."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse

from accounts import errors, payloads
from accounts.inputs import SignUpInput
from accounts.services import sign_up
from accounts.services.sign_up import Outcome
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens.payloads import token_response


class SignUpView(Endpoint):
    captcha = True

    def post(self, request: ServiceRequest) -> HttpResponse:
        body = inputs.parse(request.http, SignUpInput)
        if not body.email and not body.phone:
            return self._anonymous(body, request)
        self.throttle(Bucket.SIGNUPS, request.http)
        outcome = sign_up.register(
            email=body.email or "",
            phone=body.phone or "",
            password=body.password or "",
            data=body.data or {},
            channel=body.channel or "",
            code_challenge=body.code_challenge,
            code_challenge_method=body.code_challenge_method,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(_told(outcome))

    def _anonymous(self, body: SignUpInput, request: ServiceRequest) -> HttpResponse:
        if not settings.AUTH.signup.anonymous_enabled:
            raise errors.AnonymousSignInsDisabled
        self.throttle(Bucket.ANONYMOUS_SIGN_INS, request.http)
        outcome = sign_up.anonymous(data=body.data or {}, caller=request.caller, at=clock.now())
        return Answer(_told(outcome))


def _told(outcome: Outcome) -> dict[str, Any]:
    """The user alone, or with tokens where the sign-up has signed them in."""
    if outcome.tokens is None:
        return payloads.user(outcome.user)
    return token_response(outcome.tokens, subject=outcome.user)

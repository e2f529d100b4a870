"""POST /recover."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, refusals
from accounts.inputs import RecoverInput
from accounts.services import recovery
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.declarations import REDIRECT_TO, Empty, declares
from authsvc.core.web.renderers import Answer
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import pkce
from tokens import refusals as token_refusals


class RecoverView(Endpoint):
    bucket = Bucket.RECOVER
    captcha = True

    @declares(
        body=RecoverInput,
        query=(REDIRECT_TO,),
        answers={200: Empty},
        refusals=(
            *refusals.ADDRESS,
            *refusals.MAIL_REQUEST,
            *token_refusals.PKCE,
            errors.RecoveryAddressMissing,
            errors.MailRequestsDisabled,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Mail a link and a code to somebody who has lost the password."""
        body = inputs.parse(request.http, RecoverInput)
        recovery.send(
            email=body.email or "",
            challenge=pkce.parse(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})

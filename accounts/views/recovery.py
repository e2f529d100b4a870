"""POST /recover."""

from __future__ import annotations

from django.http import HttpResponse

from accounts.inputs import RecoverInput
from accounts.services import recovery
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import pkce


class RecoverView(Endpoint):
    bucket = Bucket.RECOVER
    captcha = True

    def post(self, request: ServiceRequest) -> HttpResponse:
        body = inputs.parse(request.http, RecoverInput)
        recovery.send(
            email=body.email or "",
            challenge=pkce.parse(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})

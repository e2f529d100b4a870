"""POST /recover."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors
from accounts.recovery import recovery_emails
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Empty, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.flows import pkce
from tokens.flows.errors import PKCE_ERRORS


class RecoverInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("email",)
    email: str | None = None
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class RecoverView(Endpoint):
    throttle_scope = Bucket.RECOVER
    captcha = True

    @document(
        body=RecoverInput,
        query=(REDIRECT_TO,),
        responses={200: Empty},
        errors=(
            *errors.EMAIL_FORMAT_ERRORS,
            *errors.EMAIL_REQUEST_ERRORS,
            *PKCE_ERRORS,
            errors.RecoveryAddressMissing,
            errors.MailRequestsDisabled,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Send a link and a code that sign in a user who has lost the password."""
        body = parsing.parse_body(request, RecoverInput)
        recovery_emails.send_recovery_email(
            email=body.email or "",
            challenge=pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({})

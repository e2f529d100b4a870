"""POST /recover."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors
from accounts.messages import confirmation_emails, recipients
from accounts.users import identifiers, queries
from authsvc import conf, messaging
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Empty, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.caller import Caller
from authsvc.messaging import EmailKind, IntervalGroup, Sender
from tokens.flows import pkce
from tokens.flows.errors import PKCE_ERRORS
from tokens.flows.pkce import Challenge


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
        _send_recovery_email(
            email=body.email or "",
            challenge=pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({})


def _send_recovery_email(
    *, email: str, challenge: Challenge | None, redirect_to: str, caller: Caller, at: datetime
) -> None:
    """Send a recovery link and code. Without an account the response is the same, and no email is sent."""
    if not conf.current().signup.email_enabled:
        raise errors.MailRequestsDisabled
    if not email:
        raise errors.RecoveryAddressMissing
    address = identifiers.email(email)
    with messaging.email_interval(IntervalGroup.PASSWORDLESS, address=address):
        user = queries.find_claimant("email", address, aud=caller.audience)
        reserve = recipients.check_email if user is None else recipients.reserve_email
        reserve(address, kind=EmailKind.RECOVERY, sender=Sender.of_request(caller))
    if user is None:
        confirmation_emails.simulate_send(confirmation_emails.RECOVERY, address=address, at=at)
        return
    with transaction.atomic(durable=True):
        confirmation_emails.send(
            confirmation_emails.RECOVERY, user, challenge=challenge, redirect_to=redirect_to, caller=caller, at=at
        )

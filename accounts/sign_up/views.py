"""POST /signup."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.response import Response

from accounts import error_sets, schemas
from accounts import errors as account_errors
from accounts.sign_up import errors, sign_up
from accounts.sign_up.sign_up import SignUpResult
from accounts.users import payloads
from authsvc import clock, conf
from authsvc.api import parsing, throttling
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from tokens.api import error_sets as token_error_sets
from tokens.api.payloads import token_response
from tokens.api.schemas import Session


class SignUpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    data: dict[str, Any] | None = None
    """Becomes `user_metadata`."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class SignUpView(Endpoint):
    captcha = True

    @document(
        body=SignUpInput,
        query=(REDIRECT_TO,),
        responses={200: (schemas.User, Session)},
        errors=(
            *error_sets.EMAIL_FORMAT,
            *error_sets.EMAIL_REQUEST,
            *error_sets.SMS_REQUEST,
            *error_sets.NEW_PASSWORD,
            *token_error_sets.PKCE,
            RequestRateExceeded,
            account_errors.PhoneInvalid,
            errors.OnlyOneIdentifierOnSignup,
            account_errors.PasswordRequired,
            errors.PkceNotForPhone,
            account_errors.SignupDisabled,
            errors.EmailSignupsDisabled,
            errors.PhoneSignupsDisabled,
            errors.AnonymousSignInsDisabled,
            account_errors.UserAlreadyRegistered,
            account_errors.PhoneAlreadyRegistered,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Register somebody by email address or phone number, or let a visitor in anonymously.

        Answers the user, who has yet to confirm the address; a session where addresses are confirmed by themselves,
        and for visitors. An address that is in use by a confirmed account gets the answer of a new one, and no mail.
        """
        body = parsing.parse_body(request, SignUpInput)
        if not body.email and not body.phone:
            return self._anonymous(body, request)
        throttling.check(Bucket.SIGNUPS, request)
        outcome = sign_up.sign_up(
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
        return Response(_told(outcome))

    def _anonymous(self, body: SignUpInput, request: ServiceRequest) -> HttpResponse:
        if not conf.current().signup.anonymous_enabled:
            raise errors.AnonymousSignInsDisabled
        throttling.check(Bucket.ANONYMOUS_SIGN_INS, request)
        outcome = sign_up.sign_in_anonymously(data=body.data or {}, caller=request.caller, at=clock.now())
        return Response(_told(outcome))


def _told(outcome: SignUpResult) -> dict[str, Any]:
    """The user alone, or with tokens where the sign-up has signed them in."""
    if outcome.tokens is None:
        return payloads.user(outcome.user)
    return token_response(outcome.tokens, user=outcome.user)

"""POST /signup."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts import schemas
from accounts.sign_up import errors, sign_up
from accounts.sign_up.sign_up import SignUpResult
from accounts.users import records
from authsvc import conf
from authsvc.api import parsing, throttling
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from tokens.api.grants import token_response
from tokens.api.schemas import Session
from tokens.flows.errors import PKCE_ERRORS


class SignUpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    data: dict[str, Any] | None = None
    """Becomes `user_metadata`."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class SignUpView(Endpoint):
    captcha = True

    @document(
        body=SignUpInput,
        query=(REDIRECT_TO,),
        responses={200: (schemas.User, Session)},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_REQUEST_ERRORS,
            *account_errors.SMS_REQUEST_ERRORS,
            *account_errors.NEW_PASSWORD_ERRORS,
            *PKCE_ERRORS,
            RequestRateExceeded,
            account_errors.PhoneInvalid,
            account_errors.MetadataTooLarge,
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
        """Sign up by email or phone, or sign in anonymously.

        Returns the user, who has yet to confirm the email or phone. With auto-confirm, and for anonymous users, it
        returns a session. An address of a confirmed account gets the same response as a new one, but no message.
        """
        body = parsing.parse_body(request, SignUpInput)
        if not body.email and not body.phone:
            return self._anonymous(body, request)
        throttling.check(Bucket.SIGNUPS, request)
        result = sign_up.sign_up(
            email=body.email or "",
            phone=body.phone or "",
            password=body.password or "",
            data=body.data or {},
            channel=body.channel or "",
            code_challenge=body.code_challenge,
            code_challenge_method=body.code_challenge_method,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(_payload(result))

    def _anonymous(self, body: SignUpInput, request: ServiceRequest) -> HttpResponse:
        if not conf.current().signup.anonymous_enabled:
            raise errors.AnonymousSignInsDisabled
        throttling.check(Bucket.ANONYMOUS_SIGN_INS, request)
        result = sign_up.sign_in_anonymously(data=body.data or {}, caller=request.caller, at=timezone.now())
        return Response(_payload(result))


def _payload(result: SignUpResult) -> dict[str, Any]:
    """The session when the sign-up started one, else the user."""
    if result.tokens is None:
        return records.render_user(result.user)
    return token_response(result.tokens, user=result.user)

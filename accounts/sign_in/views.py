"""POST /otp and /magiclink."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts import schemas
from accounts.sign_in import errors, passwordless
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Empty, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.flows import pkce
from tokens.flows.errors import PKCE_ERRORS


class OtpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    create_user: bool | None = None
    """Create an account when none exists. Default: true."""
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class MagicLinkInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("email",)
    email: str | None = None
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class OtpView(Endpoint):
    throttle_scope = Bucket.OTP
    captcha = True

    @document(
        body=OtpInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.MessageSent},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_REQUEST_ERRORS,
            *account_errors.SMS_REQUEST_ERRORS,
            *PKCE_ERRORS,
            account_errors.PasswordTooLong,
            account_errors.MetadataTooLarge,
            account_errors.PhoneInvalid,
            errors.OnlyOneIdentifierOnOtp,
            errors.IdentifierMissingOnOtp,
            errors.ChannelWithoutPhone,
            errors.OtpDisabled,
            account_errors.SignupDisabled,
            errors.EmailLoginsDisabled,
            errors.MagicLinkDisabled,
            errors.PhoneOtpDisabled,
            account_errors.UserAlreadyRegistered,
            account_errors.PhoneAlreadyRegistered,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Send a link and a code by email, or a code by SMS, that sign in.

        A new account is created unless `create_user` is false. Only SMS returns a `message_id`.
        """
        body = parsing.parse_body(request, OtpInput)
        if body.email and body.phone:
            raise errors.OnlyOneIdentifierOnOtp
        if body.email and body.channel:
            raise errors.ChannelWithoutPhone
        challenge = pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method)
        if body.phone:
            message_id = passwordless.send_sms_code(
                phone=body.phone,
                data=body.data or {},
                channel=body.channel or "",
                create_user=body.create_user is not False,
                caller=request.caller,
                at=timezone.now(),
            )
            return Response({"message_id": message_id})
        if not body.email:
            raise errors.IdentifierMissingOnOtp
        passwordless.send_magic_link(
            email=body.email,
            data=body.data or {},
            create_user=body.create_user is not False,
            challenge=challenge,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({})


class MagicLinkView(Endpoint):
    throttle_scope = Bucket.MAGIC_LINK
    captcha = True

    @document(
        body=MagicLinkInput,
        query=(REDIRECT_TO,),
        responses={200: Empty},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_REQUEST_ERRORS,
            *PKCE_ERRORS,
            account_errors.PasswordTooLong,
            account_errors.MetadataTooLarge,
            errors.MagicLinkAddressMissing,
            account_errors.SignupDisabled,
            errors.EmailLoginsDisabled,
            errors.MagicLinkDisabled,
            account_errors.UserAlreadyRegistered,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Send a link and a code by email that sign in. A new account is created when none exists."""
        body = parsing.parse_body(request, MagicLinkInput)
        passwordless.send_magic_link(
            email=body.email or "",
            data=body.data or {},
            create_user=True,
            challenge=pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({})

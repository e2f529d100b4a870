"""POST /otp, /magiclink and /resend."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.inputs import MagicLinkInput, OtpInput, ResendInput
from accounts.sign_in import passwordless
from accounts.verification import resending
from authsvc import clock
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Empty, document
from authsvc.api.renderers import Answer
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import error_sets as token_error_sets
from tokens.flows import pkce


class OtpView(Endpoint):
    bucket = Bucket.OTP
    captcha = True

    @document(
        body=OtpInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.MessageSent},
        errors=(
            *error_sets.ADDRESS,
            *error_sets.MAIL_REQUEST,
            *error_sets.TEXT,
            *token_error_sets.PKCE,
            errors.PasswordTooLong,
            errors.PhoneInvalid,
            errors.OnlyOneIdentifierOnOtp,
            errors.IdentifierMissingOnOtp,
            errors.ChannelWithoutPhone,
            errors.OtpDisabled,
            errors.SignupDisabled,
            errors.EmailLoginsDisabled,
            errors.MagicLinkDisabled,
            errors.PhoneOtpDisabled,
            errors.UserAlreadyRegistered,
            errors.PhoneAlreadyRegistered,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Mail a link and a code, or text a code, that sign in.

        Whoever has no account gets one unless `create_user` is false. `message_id` is told for text messages alone.
        """
        body = parsing.parse_body(request.http, OtpInput)
        if body.email and body.phone:
            raise errors.OnlyOneIdentifierOnOtp
        if body.email and body.channel:
            raise errors.ChannelWithoutPhone
        challenge = pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method)
        if body.phone:
            message_id = passwordless.send_code_by_phone(
                phone=body.phone,
                data=body.data or {},
                channel=body.channel or "",
                create_user=body.create_user is not False,
                caller=request.caller,
                at=clock.now(),
            )
            return Answer({"message_id": message_id})
        if not body.email:
            raise errors.IdentifierMissingOnOtp
        passwordless.send_magic_link(
            email=body.email,
            data=body.data or {},
            create_user=body.create_user is not False,
            challenge=challenge,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})


class MagicLinkView(Endpoint):
    bucket = Bucket.MAGIC_LINK
    captcha = True

    @document(
        body=MagicLinkInput,
        query=(REDIRECT_TO,),
        responses={200: Empty},
        errors=(
            *error_sets.ADDRESS,
            *error_sets.MAIL_REQUEST,
            *token_error_sets.PKCE,
            errors.PasswordTooLong,
            errors.MagicLinkAddressMissing,
            errors.SignupDisabled,
            errors.EmailLoginsDisabled,
            errors.MagicLinkDisabled,
            errors.UserAlreadyRegistered,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Mail a link and a code that sign in, and make an account where there is none."""
        body = parsing.parse_body(request.http, MagicLinkInput)
        passwordless.send_magic_link(
            email=body.email or "",
            data=body.data or {},
            create_user=True,
            challenge=pkce.parse_challenge(challenge=body.code_challenge, method=body.code_challenge_method),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})


class ResendView(Endpoint):
    bucket = Bucket.RESEND
    captcha = True

    @document(
        body=ResendInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.MessageAccepted},
        errors=(
            *error_sets.ADDRESS,
            *error_sets.MAIL_REQUEST,
            *error_sets.TEXT,
            *token_error_sets.PKCE,
            errors.PhoneInvalid,
            errors.ResendTypeMissing,
            errors.ResendNeedsEmail,
            errors.ResendNeedsPhone,
            errors.OnlyOneIdentifierOnResend,
            errors.IdentifierMissingOnResend,
            errors.MailRequestsDisabled,
            errors.PhoneRequestsDisabled,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Send the confirmation of a sign-up, or of a change of address or number, once more."""
        body = parsing.parse_body(request.http, ResendInput)
        message_id = resending.resend(
            type=body.type or "",
            email=body.email or "",
            phone=body.phone or "",
            code_challenge=body.code_challenge,
            code_challenge_method=body.code_challenge_method,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({"message_id": message_id})

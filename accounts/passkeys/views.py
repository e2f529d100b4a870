"""/passkeys: passkeys of the signed-in user, and signing in by one."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.passkeys import authentication as passkey_authentication
from accounts.passkeys import errors, management, payloads, registration, schemas
from accounts.passkeys.challenges import Answer as CredentialAnswer
from accounts.passkeys.schemas import CredentialInput, PasskeyInput
from accounts.users import identifiers
from accounts.users.subjects import own
from authsvc import clock, conf
from authsvc.api import parsing
from authsvc.api.openapi.document import document
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.payloads import token_response
from tokens.api.permissions import IsNoVisitor, IsSignedIn
from tokens.api.schemas import Session
from tokens.errors import UserBanned


class _Endpoint(Endpoint):
    """Nothing is looked at while passkeys are off, not even who asks."""

    documented_errors = (errors.PasskeysDisabled,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if not conf.current().passkeys.enabled:
            raise errors.PasskeysDisabled
        super().initial(request, *args, **kwargs)


class RegistrationOptionsView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)

    @document(
        responses={200: schemas.PasskeyChallenge},
        errors=(
            errors.RelyingPartyUnknown,
            errors.TooManyPasskeys,
            errors.PasskeysNeedAal2,
            errors.PasskeysOfSsoUser,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Begin to make a passkey for the signed-in user."""
        signed_in = authentication.user_of(request)
        return Response(payloads.challenge(registration.begin(signed_in, own(signed_in), at=clock.now())))


class RegistrationView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)

    @document(
        body=CredentialInput,
        responses={200: schemas.Passkey},
        errors=(
            *errors.CREDENTIAL,
            errors.TooManyPasskeys,
            errors.CredentialExists,
            errors.PasskeysNeedAal2,
            errors.PasskeysOfSsoUser,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Keep the passkey that a browser has made."""
        signed_in = authentication.user_of(request)
        user = own(signed_in)
        registration.check_allowed(signed_in)
        answer = _answer(request)
        made = registration.complete(signed_in, user, answer, caller=request.caller, at=clock.now())
        return Response(payloads.passkey(made))


class AuthenticationOptionsView(_Endpoint):
    throttle_scope = Bucket.PASSKEY_AUTHENTICATION
    captcha = True

    @document(responses={200: schemas.PasskeyChallenge}, errors=(errors.RelyingPartyUnknown,))
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Begin to sign in by passkey."""
        return Response(payloads.challenge(passkey_authentication.begin(at=clock.now())))


class AuthenticationView(_Endpoint):
    @document(
        body=CredentialInput,
        responses={200: Session},
        errors=(
            *errors.CREDENTIAL,
            UserBanned,
            errors.EmailNotConfirmedForPasskey,
            errors.PhoneNotConfirmedForPasskey,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Sign in by passkey."""
        done = passkey_authentication.complete(_answer(request), caller=request.caller, at=clock.now())
        return Response(token_response(done.tokens, subject=done.user))


class PasskeysView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(responses={200: list[schemas.Passkey]})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the signed-in user's passkeys."""
        user = own(authentication.user_of(request))
        return Response([payloads.passkey(passkey) for passkey in management.of(user)])


class PasskeyView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        body=PasskeyInput,
        responses={200: schemas.Passkey},
        errors=(errors.PasskeyNotFound, errors.PasskeyNameMissing, errors.PasskeyNameTooLong),
    )
    def patch(self, request: ServiceRequest, passkey_id: str) -> HttpResponse:
        """Rename a passkey."""
        user = own(authentication.user_of(request))
        chosen = identifiers.uuid(passkey_id)
        if chosen is None:
            raise errors.PasskeyNotFound
        name = parsing.parse_body(request, PasskeyInput).friendly_name or ""
        renamed = management.rename(user, chosen, friendly_name=name, caller=request.caller, at=clock.now())
        return Response(payloads.passkey(renamed))

    @document(
        responses={204: None},
        errors=(errors.PasskeyNotFound, errors.PasskeysNeedAal2),
    )
    def delete(self, request: ServiceRequest, passkey_id: str) -> HttpResponse:
        """Remove a passkey; sessions that began with it live on."""
        signed_in = authentication.user_of(request)
        chosen = identifiers.uuid(passkey_id)
        management.remove(signed_in, own(signed_in), chosen, caller=request.caller, at=clock.now())
        return Response(status=204)


def _answer(request: ServiceRequest) -> CredentialAnswer:
    body = parsing.parse_body(request, CredentialInput)
    return CredentialAnswer(challenge_id=body.challenge_id or "", credential=body.credential)

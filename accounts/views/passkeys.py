"""/passkeys: passkeys of the signed-in user, and signing in by one."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from accounts import errors, identifiers, payloads, refusals, shapes
from accounts.inputs import CredentialInput, PasskeyInput
from accounts.services.passkeys import authentication as passkey_authentication
from accounts.services.passkeys import keeping, registration
from accounts.services.passkeys.challenges import Answer as CredentialAnswer
from accounts.subjects import own
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.declarations import declares
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.throttling import Bucket
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import authentication
from tokens.authentication import BearerAuthentication
from tokens.payloads import token_response
from tokens.permissions import IsNoVisitor, IsSignedIn
from tokens.shapes import Session


class _Endpoint(Endpoint):
    """Nothing is looked at while passkeys are off, not even who asks."""

    refusals = (errors.PasskeysDisabled,)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.AUTH.passkeys.enabled:
            return self.refuse(errors.PasskeysDisabled(), request)
        return super().dispatch(request, *args, **kwargs)


class RegistrationOptionsView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)

    @declares(
        answers={200: shapes.PasskeyChallenge},
        refusals=(
            errors.RelyingPartyUnknown,
            errors.TooManyPasskeys,
            errors.PasskeysNeedAal2,
            errors.PasskeysOfSsoUser,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Begin to make a passkey for the signed-in user."""
        signed_in = authentication.user_of(request)
        return Answer(payloads.begun(registration.begin(signed_in, own(signed_in), at=clock.now())))


class RegistrationView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNoVisitor)

    @declares(
        body=CredentialInput,
        answers={200: shapes.Passkey},
        refusals=(
            *refusals.PASSKEY_CHALLENGE,
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
        return Answer(payloads.passkey(made))


class AuthenticationOptionsView(_Endpoint):
    bucket = Bucket.PASSKEY_AUTHENTICATION
    captcha = True

    @declares(answers={200: shapes.PasskeyChallenge}, refusals=(errors.RelyingPartyUnknown,))
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Begin to sign in by passkey."""
        return Answer(payloads.begun(passkey_authentication.begin(at=clock.now())))


class AuthenticationView(_Endpoint):
    @declares(
        body=CredentialInput,
        answers={200: Session},
        refusals=(
            *refusals.PASSKEY_CHALLENGE,
            errors.UserBanned,
            errors.EmailNotConfirmedForPasskey,
            errors.PhoneNotConfirmedForPasskey,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Sign in by passkey."""
        done = passkey_authentication.complete(_answer(request), caller=request.caller, at=clock.now())
        return Answer(token_response(done.tokens, subject=done.user))


class PasskeysView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @declares(answers={200: list[shapes.Passkey]})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the signed-in user's passkeys."""
        user = own(authentication.user_of(request))
        return Answer([payloads.passkey(passkey) for passkey in keeping.of(user)])


class PasskeyView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @declares(
        body=PasskeyInput,
        answers={200: shapes.Passkey},
        refusals=(errors.PasskeyNotFound, errors.PasskeyNameMissing, errors.PasskeyNameTooLong),
    )
    def patch(self, request: ServiceRequest, passkey_id: str) -> HttpResponse:
        """Rename a passkey."""
        user = own(authentication.user_of(request))
        chosen = identifiers.uuid(passkey_id)
        if chosen is None:
            raise errors.PasskeyNotFound
        name = inputs.parse(request.http, PasskeyInput).friendly_name or ""
        renamed = keeping.rename(user, chosen, friendly_name=name, caller=request.caller, at=clock.now())
        return Answer(payloads.passkey(renamed))

    @declares(
        answers={204: None},
        refusals=(errors.PasskeyNotFound, errors.PasskeysNeedAal2),
    )
    def delete(self, request: ServiceRequest, passkey_id: str) -> HttpResponse:
        """Remove a passkey; sessions that began with it live on."""
        signed_in = authentication.user_of(request)
        chosen = identifiers.uuid(passkey_id)
        keeping.remove(signed_in, own(signed_in), chosen, caller=request.caller, at=clock.now())
        return NoContent()


def _answer(request: ServiceRequest) -> CredentialAnswer:
    body = inputs.parse(request.http, CredentialInput)
    return CredentialAnswer(challenge_id=body.challenge_id or "", credential=body.credential)

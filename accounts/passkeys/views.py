"""/passkeys: passkeys of the signed-in user, and sign-in by passkey."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import RecentSignInNeeded
from accounts.passkeys import authentication as passkey_authentication
from accounts.passkeys import challenges, errors, management, registration, schemas
from accounts.passkeys.challenges import CredentialResponse
from accounts.passkeys.schemas import CredentialInput, PasskeyInput
from accounts.users import identifiers
from accounts.users.queries import get_user_record
from authsvc import conf
from authsvc.api import parsing
from authsvc.api.openapi.document import document
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.grants import token_response
from tokens.api.permissions import IsNotAnonymous, IsSignedIn
from tokens.api.schemas import Session
from tokens.sessions.errors import UserBanned


class _Endpoint(Endpoint):
    """Answers every request with an error while passkeys are disabled, before authentication."""

    documented_errors = (errors.PasskeysDisabled,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if not conf.current().passkeys.enabled:
            raise errors.PasskeysDisabled
        super().initial(request, *args, **kwargs)


class RegistrationOptionsView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNotAnonymous)

    @document(
        responses={200: schemas.PasskeyChallenge},
        errors=(
            errors.RelyingPartyUnknown,
            errors.TooManyPasskeys,
            errors.PasskeysNeedAal2,
            errors.PasskeysOfSsoUser,
            RecentSignInNeeded,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start the registration of a passkey for the signed-in user."""
        signed_in = authentication.get_signed_in_user(request)
        return Response(
            challenges.render_challenge(registration.start(signed_in, get_user_record(signed_in), at=timezone.now()))
        )


class PasskeyRegistrationView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn, IsNotAnonymous)

    @document(
        body=CredentialInput,
        responses={200: schemas.Passkey},
        errors=(
            *errors.CREDENTIAL,
            errors.TooManyPasskeys,
            errors.CredentialExists,
            errors.PasskeysNeedAal2,
            errors.PasskeysOfSsoUser,
            RecentSignInNeeded,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Store the passkey that the browser has created."""
        signed_in = authentication.get_signed_in_user(request)
        user = get_user_record(signed_in)
        registration.check_allowed(signed_in)
        response = _response(request)
        passkey = registration.complete(signed_in, user, response, caller=request.caller, at=timezone.now())
        return Response(management.render_passkey(passkey))


class AuthenticationOptionsView(_Endpoint):
    throttle_scope = Bucket.PASSKEY_AUTHENTICATION
    captcha = True

    @document(responses={200: schemas.PasskeyChallenge}, errors=(errors.RelyingPartyUnknown,))
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Start a sign-in by passkey."""
        return Response(challenges.render_challenge(passkey_authentication.start(at=timezone.now())))


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
        result = passkey_authentication.complete(_response(request), caller=request.caller, at=timezone.now())
        return Response(token_response(result.tokens, user=result.user))


class PasskeysView(_Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)
    impersonated_methods = frozenset({"get"})

    @document(responses={200: list[schemas.Passkey]})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the signed-in user's passkeys."""
        user = get_user_record(authentication.get_signed_in_user(request))
        return Response([management.render_passkey(passkey) for passkey in management.list_passkeys(user)])


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
        user = get_user_record(authentication.get_signed_in_user(request))
        parsed_id = identifiers.uuid(passkey_id)
        if parsed_id is None:
            raise errors.PasskeyNotFound
        name = parsing.parse_body(request, PasskeyInput).friendly_name or ""
        renamed = management.rename(user, parsed_id, friendly_name=name, caller=request.caller, at=timezone.now())
        return Response(management.render_passkey(renamed))

    @document(
        responses={204: None},
        errors=(errors.PasskeyNotFound, errors.PasskeysNeedAal2),
    )
    def delete(self, request: ServiceRequest, passkey_id: str) -> HttpResponse:
        """Remove a passkey. Sessions that it started stay."""
        signed_in = authentication.get_signed_in_user(request)
        parsed_id = identifiers.uuid(passkey_id)
        management.remove(signed_in, get_user_record(signed_in), parsed_id, caller=request.caller, at=timezone.now())
        return Response(status=204)


def _response(request: ServiceRequest) -> CredentialResponse:
    body = parsing.parse_body(request, CredentialInput)
    return CredentialResponse(challenge_id=body.challenge_id or "", credential=body.credential)

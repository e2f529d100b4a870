"""GET and PUT /user, and GET /reauthenticate."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts import schemas
from accounts.profile import errors, profile, reauthentication
from accounts.profile.profile import UserUpdateRequest
from accounts.users import records
from accounts.users.queries import get_user_record
from authsvc.api import parsing, throttling
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.parsing import Body
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn
from tokens.flows.errors import PKCE_ERRORS
from tokens.sessions.errors import ImpersonationNotAllowed


class UserInput(Body, frozen=True):
    example: ClassVar[tuple[str, ...]] = ("data",)
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    current_password: str | None = None
    """Required for a new password, email or phone when the operator has configured it."""
    nonce: str | None = None
    """The code of `GET /reauthenticate`, when reauthentication is required."""
    data: dict[str, Any] | None = None
    """Merged into `user_metadata`; null deletes a key."""
    app_metadata: dict[str, Any] | None = None
    """Only for administrators."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class UserView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)
    client_methods = frozenset({"get"})
    impersonated_methods = frozenset({"get", "put"})

    @document(responses={200: schemas.User}, errors=(errors.AudienceMismatch,))
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Return the signed-in user."""
        if not authentication.has_requested_audience(request):
            raise errors.AudienceMismatch
        return Response(records.render_user(get_user_record(authentication.get_signed_in_user(request))))

    @document(
        body=UserInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.User},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_REQUEST_ERRORS,
            *account_errors.SMS_REQUEST_ERRORS,
            *account_errors.NEW_PASSWORD_ERRORS,
            *PKCE_ERRORS,
            RequestRateExceeded,
            account_errors.PhoneInvalid,
            account_errors.MetadataTooLarge,
            account_errors.EmailExists,
            account_errors.PhoneExists,
            errors.AppMetadataNotAllowed,
            errors.InsufficientAal,
            errors.PasswordOfAnonymousUser,
            errors.UserManagedBySso,
            errors.SamePassword,
            errors.CurrentPasswordRequired,
            errors.CurrentPasswordInvalid,
            errors.ReauthenticationNeeded,
            errors.NonceInvalid,
            errors.NonceWithoutAddress,
            account_errors.CodeExpired,
            ImpersonationNotAllowed,
        ),
    )
    def put(self, request: ServiceRequest) -> HttpResponse:
        """Change the signed-in user's email, phone, password or metadata.

        A new email or phone is pending in `new_email` or `new_phone` until it is confirmed. A new password ends all
        other sessions and invalidates all links and codes. An operator who views the application as the user can only
        change `data`.
        """
        signed_in = authentication.get_signed_in_user(request)
        throttling.check(Bucket.USER, request)
        body = parsing.parse_body(request, UserInput)
        user = profile.update_user(
            signed_in,
            get_user_record(signed_in),
            UserUpdateRequest(**msgspec.structs.asdict(body)),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_user(user))


class ReauthenticateView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        responses={200: schemas.MessageSent},
        errors=(
            *account_errors.EMAIL_REQUEST_ERRORS,
            *account_errors.SMS_REQUEST_ERRORS,
            errors.NoContact,
            errors.EmailNotVerified,
            errors.PhoneNotVerified,
        ),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Send the user a code: the `nonce` that a change of password, email or phone may require."""
        user = get_user_record(authentication.get_signed_in_user(request))
        message_id = reauthentication.send_code(user, caller=request.caller, at=timezone.now())
        return Response({"message_id": message_id} if message_id else {})

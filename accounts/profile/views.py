"""GET and PUT /user, DELETE /user/identities/{identity_id}, GET /reauthenticate."""

from __future__ import annotations

import msgspec
from django.http import HttpResponse

from accounts import error_sets, schemas
from accounts import errors as accounts_errors
from accounts.identities import linking
from accounts.inputs import UserInput
from accounts.profile import profile, reauthentication
from accounts.profile.profile import Wish
from accounts.users import identifiers, payloads
from accounts.users.user_source import get_user_record
from authsvc import clock, conf
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Empty, document
from authsvc.api.renderers import Answer
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.errors import RequestRateExceeded
from tokens import errors
from tokens.api import authentication
from tokens.api import error_sets as token_error_sets
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn
from tokens.jwt.access_tokens import Claims


class UserView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(responses={200: schemas.User}, errors=(errors.AudienceMismatch,))
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Show the signed-in user."""
        if not _is_for(authentication.get_claims(request), asked=request.META.get("HTTP_X_JWT_AUD", "")):
            raise errors.AudienceMismatch
        return Answer(payloads.user(get_user_record(authentication.get_signed_in_user(request))))

    @document(
        body=UserInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.User},
        errors=(
            *error_sets.ADDRESS,
            *error_sets.MAIL_REQUEST,
            *error_sets.TEXT,
            *error_sets.NEW_PASSWORD,
            *token_error_sets.PKCE,
            RequestRateExceeded,
            accounts_errors.PhoneInvalid,
            accounts_errors.EmailExists,
            accounts_errors.PhoneExists,
            accounts_errors.AppMetadataNotAllowed,
            accounts_errors.InsufficientAal,
            accounts_errors.PasswordOfAnonymousUser,
            accounts_errors.UserManagedBySso,
            accounts_errors.SamePassword,
            accounts_errors.CurrentPasswordRequired,
            accounts_errors.CurrentPasswordInvalid,
            accounts_errors.ReauthenticationNeeded,
            accounts_errors.NonceInvalid,
            accounts_errors.NonceWithoutAddress,
            accounts_errors.CodeExpired,
        ),
    )
    def put(self, request: ServiceRequest) -> HttpResponse:
        """Change the signed-in user's address, number, password or metadata.

        A new address or number waits in `new_email` or `new_phone` for its confirmation. A new password ends every
        other session and every outstanding link and code.
        """
        signed_in = authentication.get_signed_in_user(request)
        self.throttle(Bucket.USER, request.http)
        body = parsing.parse_body(request.http, UserInput)
        user = profile.update(
            signed_in,
            get_user_record(signed_in),
            Wish(**msgspec.structs.asdict(body)),
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))


class IdentityView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        responses={200: Empty},
        errors=(
            accounts_errors.ManualLinkingDisabled,
            accounts_errors.IdentityIdNotAUuid,
            accounts_errors.UnexpectedAudience,
            accounts_errors.IdentityNotFound,
            accounts_errors.SingleIdentity,
            accounts_errors.NoFreeEmail,
        ),
    )
    def delete(self, request: ServiceRequest, identity_id: str) -> HttpResponse:
        """Unlink an identity of the user that is not the last one."""
        if not conf.current().signup.manual_linking_enabled:
            raise accounts_errors.ManualLinkingDisabled
        wanted = identifiers.uuid(identity_id)
        if wanted is None:
            raise accounts_errors.IdentityIdNotAUuid
        if not _is_for(authentication.get_claims(request), asked=request.META.get("HTTP_X_JWT_AUD", "")):
            raise accounts_errors.UnexpectedAudience
        signed_in = authentication.get_signed_in_user(request)
        linking.unlink(signed_in, get_user_record(signed_in), identity_id=wanted, caller=request.caller, at=clock.now())
        return Answer({})


class ReauthenticateView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        responses={200: schemas.MessageSent},
        errors=(
            *error_sets.MAIL_REQUEST,
            *error_sets.TEXT,
            accounts_errors.NothingToReauthenticateBy,
            accounts_errors.EmailNotVerified,
            accounts_errors.PhoneNotVerified,
        ),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Send the user a code, the `nonce` that a change of password may ask for."""
        user = get_user_record(authentication.get_signed_in_user(request))
        message_id = reauthentication.send(user, caller=request.caller, at=clock.now())
        return Answer({"message_id": message_id} if message_id else {})


def _is_for(claims: Claims, *, asked: str) -> bool:
    """Whether the audience the client asks for, or the one its token stands for, is the token's own."""
    if not asked:
        config = conf.current().jwt
        asked = config.aud if not claims.aud or claims.role in config.admin_roles else claims.aud[0]
    return bool(claims.aud) and claims.aud[0] == asked

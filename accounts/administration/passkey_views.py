"""/admin/users/{user_id}/passkeys."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.administration import paths
from accounts.passkeys import management, payloads
from accounts.users import identifiers, queries
from authsvc import clock
from authsvc.api.openapi.document import document
from authsvc.api.renderers import Answer, NoContent
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class PasskeysView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(responses={200: list[schemas.Passkey]}, errors=error_sets.PATH_OF_USER)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's passkeys."""
        user = queries.require(paths.user_id(user_id))
        return Answer([payloads.passkey(passkey) for passkey in management.of(user)])


class PasskeyView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(responses={204: None}, errors=(*error_sets.PATH_OF_USER, errors.PasskeyNotFound))
    def delete(self, request: ServiceRequest, user_id: str, passkey_id: str) -> HttpResponse:
        """Remove a user's passkey."""
        user = queries.require(paths.user_id(user_id))
        actor = admin_auth.admin_of(request).actor
        management.take_away(user, identifiers.uuid(passkey_id), actor=actor, caller=request.caller, at=clock.now())
        return NoContent()

"""/admin/users/{user_id}/passkeys."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, identifiers, payloads, refusals, shapes
from accounts.services import directory
from accounts.services.passkeys import keeping
from accounts.views.admin import paths
from authsvc.core import clock
from authsvc.core.web.declarations import declares
from authsvc.core.web.renderers import Answer, NoContent
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import admins
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class PasskeysView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(answers={200: list[shapes.Passkey]}, refusals=refusals.PATH_OF_USER)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's passkeys."""
        user = directory.find(paths.user_id(user_id))
        return Answer([payloads.passkey(passkey) for passkey in keeping.of(user)])


class PasskeyView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(answers={204: None}, refusals=(*refusals.PATH_OF_USER, errors.PasskeyNotFound))
    def delete(self, request: ServiceRequest, user_id: str, passkey_id: str) -> HttpResponse:
        """Remove a user's passkey."""
        user = directory.find(paths.user_id(user_id))
        actor = admins.admin_of(request).actor
        keeping.take_away(user, identifiers.uuid(passkey_id), actor=actor, caller=request.caller, at=clock.now())
        return NoContent()

"""POST /invite."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.administration import invitations
from accounts.inputs import InviteInput
from accounts.users import payloads
from authsvc import clock
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.renderers import Answer
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class InviteView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(
        body=InviteInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.User},
        errors=(*error_sets.EMAIL_FORMAT, *error_sets.EMAIL_DELIVERY, errors.EmailExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make an account for an address and mail an invitation.

        Whoever is invited again gets a new link, and the former one is dead.
        """
        body = parsing.parse_body(request.http, InviteInput)
        user = invitations.invite(
            email=body.email or "",
            data=body.data or {},
            redirect_to=self.redirect_target(request),
            actor=admin_auth.get_admin(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

"""POST /invite."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, payloads, refusals, shapes
from accounts.inputs import InviteInput
from accounts.services import invitations
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.declarations import REDIRECT_TO, declares
from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import admins
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class InviteView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(
        body=InviteInput,
        query=(REDIRECT_TO,),
        answers={200: shapes.User},
        refusals=(*refusals.ADDRESS, *refusals.MAIL, errors.EmailExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make an account for an address and mail an invitation.

        Whoever is invited again gets a new link, and the former one is dead.
        """
        body = inputs.parse(request.http, InviteInput)
        user = invitations.invite(
            email=body.email or "",
            data=body.data or {},
            redirect_to=self.redirect_target(request),
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

"""POST /admin/generate_link."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, payloads, refusals, shapes
from accounts.inputs import GenerateLinkInput
from accounts.services import action_links
from accounts.services.action_links import Wish
from authsvc.core import clock, redirects
from authsvc.core.web import inputs
from authsvc.core.web.declarations import REDIRECT_TO, declares
from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import admins
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class GenerateLinkView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(
        body=GenerateLinkInput,
        query=(REDIRECT_TO,),
        answers={200: shapes.ActionLink},
        refusals=(
            *refusals.ADDRESS,
            *refusals.MAIL,
            *refusals.NEW_PASSWORD,
            errors.LinkTypeUnknown,
            errors.PasswordRequired,
            errors.UserWithEmailNotFound,
            errors.EmailExists,
            errors.SecureEmailChangeOff,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make the link and the code of a mail, for the caller to deliver.

        Whoever has them is the user. An invitation is mailed too, unless
        `AUTH_MAILER_GENERATE_LINK_INVITE_ENABLED` is off.
        """
        body = inputs.parse(request.http, GenerateLinkInput)
        wish = Wish(
            type=body.type or "",
            email=body.email or "",
            new_email=body.new_email or "",
            password=body.password or "",
            data=body.data or {},
            redirect_to=self._target(request, asked=body.redirect_to or ""),
        )
        made = action_links.generate(
            wish,
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.action_link(made))

    def _target(self, request: ServiceRequest, *, asked: str) -> str:
        """The one in the body where it is permitted, which only here is a candidate at all."""
        if redirects.is_permitted(asked):
            return redirects.resolve(header=asked, query=None, referer=None)
        return self.redirect_target(request)

"""POST /admin/generate_link."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.administration import action_links
from accounts.administration.action_links import ActionLink, Wish
from accounts.inputs import GenerateLinkInput
from accounts.users import payloads
from authsvc import clock
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.renderers import Answer
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.security import redirects
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class GenerateLinkView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(
        body=GenerateLinkInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.ActionLink},
        errors=(
            *error_sets.EMAIL_FORMAT,
            *error_sets.EMAIL_DELIVERY,
            *error_sets.NEW_PASSWORD,
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
        body = parsing.parse_body(request.http, GenerateLinkInput)
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
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(_payload(made))

    def _target(self, request: ServiceRequest, *, asked: str) -> str:
        """The one in the body where it is permitted, which only here is a candidate at all."""
        if redirects.is_permitted(asked):
            return redirects.resolve(header=asked, query=None, referer=None)
        return self.redirect_target(request)


def _payload(link: ActionLink) -> dict[str, Any]:
    """The User object, with the link and the code among its members."""
    return {
        **payloads.user(link.user),
        "action_link": link.url,
        "email_otp": link.secret.code,
        "hashed_token": link.secret.link_token,
        "verification_type": link.type,
        "redirect_to": link.redirect_to,
    }

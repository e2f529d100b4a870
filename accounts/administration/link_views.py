"""/invite and /admin/generate_link."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts import schemas as account_schemas
from accounts.administration import action_links, errors, invitations, schemas
from accounts.administration.action_links import GeneratedLink, LinkRequest
from accounts.administration.schemas import GenerateLinkInput, InviteInput
from accounts.administration.views import AdminEndpoint
from accounts.users import records
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, document
from authsvc.api.views import ServiceRequest
from tokens.api import authentication


class InviteView(AdminEndpoint):
    @document(
        body=InviteInput,
        query=(REDIRECT_TO,),
        responses={200: account_schemas.User},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_DELIVERY_ERRORS,
            account_errors.EmailExists,
            account_errors.MetadataTooLarge,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create an account for an email address and send an invitation.

        A repeated invitation replaces the former link.
        """
        body = parsing.parse_body(request, InviteInput)
        user = invitations.invite(
            email=body.email or "",
            data=body.data or {},
            redirect_to=self.redirect_target(request),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_user(user))


class GenerateLinkView(AdminEndpoint):
    @document(
        body=GenerateLinkInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.ActionLink},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_DELIVERY_ERRORS,
            *account_errors.NEW_PASSWORD_ERRORS,
            account_errors.MetadataTooLarge,
            errors.LinkTypeUnknown,
            account_errors.PasswordRequired,
            errors.UserWithEmailNotFound,
            account_errors.EmailExists,
            errors.SecureEmailChangeOff,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create the link and the code of an email, which the caller delivers.

        Both sign the user in, so they must be kept secret. An invitation is also sent by email, unless
        `AUTH_MAILER_GENERATE_LINK_INVITE_ENABLED` is off.
        """
        body = parsing.parse_body(request, GenerateLinkInput)
        link_request = LinkRequest(
            type=body.type or "",
            email=body.email or "",
            new_email=body.new_email or "",
            password=body.password or "",
            data=body.data or {},
            redirect_to=self.redirect_target(request, requested=body.redirect_to or ""),
        )
        link = action_links.generate(
            link_request,
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(_action_link(link))


def _action_link(link: GeneratedLink) -> dict[str, Any]:
    """The User object, with the link and the code among its members."""
    return {
        **records.render_user(link.user),
        "action_link": link.url,
        "email_otp": link.secret.code,
        "hashed_token": link.secret.link_token,
        "verification_type": link.type,
        "redirect_to": link.redirect_to,
    }

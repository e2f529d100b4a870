"""GET and POST /verify, POST /verify/confirm and POST /resend."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, NotRequired, TypedDict, cast

from django.http import HttpResponse, QueryDict
from django.utils import timezone
from rest_framework.parsers import FormParser
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts.verification import confirm_page, errors, impersonation, redemption, resending
from accounts.verification.redemption import Redemption
from authsvc import conf
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Parameter, ResponseDoc, document
from authsvc.api.parsing import Body
from authsvc.api.renderers import SeeOther
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, RedirectEndpoint, ServiceRequest
from authsvc.errors import BodyTooLarge
from authsvc.security import redirects
from tokens.api import authentication
from tokens.api.grants import token_fragment, token_response
from tokens.api.schemas import Session
from tokens.flows.errors import PKCE_ERRORS, NoFlowForLink
from tokens.one_time.one_time_tokens import PKCE_PREFIX
from tokens.sessions.errors import ImpersonationNotAllowed, UserBanned

LINK_TYPES = ("signup", "invite", "recovery", "magiclink", "email", "email_change", impersonation.LINK_TYPE)
_LINK_TOKEN = re.compile(rf"(?:{PKCE_PREFIX})?[0-9a-f]{{56}}")
_RETURNED_TYPES = frozenset({"signup", "recovery", "invite"})
_REDIRECT = ResponseDoc(
    "To the target: with tokens in the fragment, for a PKCE flow with `code` in the query, or with `error`,"
    " `error_code` and `error_description`.",
    headers=("Location",),
)
_LINK_ERRORS = (
    *account_errors.NEW_PASSWORD_ERRORS,
    *account_errors.CONTACT_CHANGE_ERRORS,
    errors.InvalidEmailVerificationType,
    errors.LinkExpired,
    UserBanned,
    NoFlowForLink,
)
_SECOND_CONFIRMATION_NEEDED = "Confirmation link accepted. Please proceed to confirm link sent to the other email"


class VerifyInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    example: ClassVar[tuple[str, ...]] = ("type", "email", "token")
    type: str | None = None
    """One of `signup`, `invite`, `recovery`, `magiclink`, `email`, `email_change`, `impersonation`, `sms`,
    `phone_change`."""
    token: str | None = None
    """The code, together with the email or phone it was sent to; or the token of a link."""
    token_hash: str | None = None
    """The token of a link. Only `type` and `password` may accompany it."""
    email: str | None = None
    phone: str | None = None
    redirect_to: str | None = None
    password: str | None = None
    """The first password of an account without one."""


class ConfirmForm(Body, frozen=True):
    """The form of the confirmation page."""

    needs: ClassVar[tuple[str, ...]] = ("type", "token")
    type: str | None = None
    token: str | None = None
    redirect_to: str | None = None


class ResendInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    example: ClassVar[tuple[str, ...]] = ("type", "email")
    type: str | None = None
    """`signup`, `email_change`, `sms` or `phone_change`."""
    email: str | None = None
    phone: str | None = None
    code_challenge: str | None = None
    """Starts a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class SessionByCode(Session):
    """A session started with the code or link of a message."""

    type: NotRequired[Literal["signup", "recovery", "invite"]]


class FirstConfirmation(TypedDict):
    """The first of two confirmations of an email change. The other address has yet to confirm."""

    code: Literal["200"]
    msg: str


class MessageAccepted(TypedDict):
    """The response whether or not a message was sent."""

    message_id: str


class LinkEndpoint(RedirectEndpoint):
    """Redeems the token of an email link for a browser."""

    throttle_scope = Bucket.VERIFY

    def open_link(self, link_type: str, token: str, *, target: str, request: ServiceRequest) -> HttpResponse:
        self.begin_redirecting(target, error_in_query=token.startswith(PKCE_PREFIX))
        if link_type == impersonation.LINK_TYPE:
            _, tokens = impersonation.redeem_link(token, caller=request.caller, at=timezone.now())
            return SeeOther(redirects.with_fragment(target, token_fragment(tokens, type=link_type)))
        result = redemption.open_link(type=link_type, token=token, caller=request.caller, at=timezone.now())
        if result.awaits_second_confirmation:
            return SeeOther(_with_message(target, in_query=token.startswith(PKCE_PREFIX)))
        if result.tokens is None:
            return SeeOther(redirects.with_query(target, {"code": result.auth_code or ""}))
        return SeeOther(redirects.with_fragment(target, token_fragment(result.tokens, type=result.type)))

    @staticmethod
    def check(link_type: str, token: str) -> None:
        if not link_type:
            raise errors.VerificationTypeMissing
        if not token:
            raise errors.TokenMissing


class VerifyView(LinkEndpoint):
    @document(
        query=(
            Parameter("type", "The purpose of the link.", values=LINK_TYPES, required=True),
            Parameter("token", "The token of the link.", required=True),
            REDIRECT_TO,
        ),
        responses={
            303: _REDIRECT,
            200: ResponseDoc("A page with a button that redeems the link.", media_type="text/html"),
        },
        errors=(errors.VerificationTypeMissing, errors.TokenMissing),
        redirect_errors=_LINK_ERRORS,
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Redeem an email link in a browser.

        With `AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED` the response is a page with a button that redeems the link.
        """
        link_type, token = parsing.query_parameter(request, "type"), parsing.query_parameter(request, "token")
        self.check(link_type, token)
        target = self.redirect_target(request)
        # The page keeps mail scanners from redeeming links; the console shows this one to an operator only.
        if conf.current().mailer.link_confirm_page_enabled and link_type != impersonation.LINK_TYPE:
            return confirm_page.render(link_type=link_type, token=token, target=target, path=request.http.path)
        return self.open_link(link_type, token, target=target, request=request)

    @document(
        body=VerifyInput,
        responses={200: (SessionByCode, FirstConfirmation)},
        errors=(
            *account_errors.NEW_PASSWORD_ERRORS,
            *account_errors.CONTACT_CHANGE_ERRORS,
            errors.VerificationTypeMissing,
            errors.TokenOrHashMissing,
            errors.OnlyTokenHashAllowed,
            errors.OnlyOneIdentifierOnVerify,
            errors.InvalidEmailFormat,
            account_errors.PhoneInvalid,
            errors.InvalidEmailVerificationType,
            errors.LinkExpired,
            account_errors.CodeExpired,
            UserBanned,
            errors.PasswordRequiredToConfirm,
            ImpersonationNotAllowed,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Redeem a code with its email or phone, or the token of a link, for a session.

        The first of two confirmations of an email change returns no session.
        """
        authentication.refuse_impersonated_caller(request.caller, request="POST verify", at=timezone.now())
        result = self._redeem(parsing.parse_body(request, VerifyInput), request)
        if result.awaits_second_confirmation:
            return Response({"code": "200", "msg": _SECOND_CONFIRMATION_NEEDED})  # a string here, a number in errors
        extra = {"type": result.type} if result.type in _RETURNED_TYPES else {}
        assert result.tokens is not None  # noqa: S101  (only browsers get a code instead)
        return Response(token_response(result.tokens, user=result.user, **extra))

    @staticmethod
    def _redeem(body: VerifyInput, request: ServiceRequest) -> Redemption:
        """Distinguish a code with its email or phone from the token of a link, and redeem it."""
        if not body.type:
            raise errors.VerificationTypeMissing
        if bool(body.token) == bool(body.token_hash):
            raise errors.TokenOrHashMissing
        link = body.token_hash
        if body.token and not body.email and not body.phone and _LINK_TOKEN.fullmatch(body.token):
            link = body.token
        elif body.token_hash and (body.email or body.phone or body.redirect_to):
            raise errors.OnlyTokenHashAllowed
        if link and body.type == impersonation.LINK_TYPE:
            user, tokens = impersonation.redeem_link(link, caller=request.caller, at=timezone.now())
            return Redemption(user=user, type=body.type, tokens=tokens)
        if link:
            return redemption.redeem_link(
                type=body.type, token=link, password=body.password, caller=request.caller, at=timezone.now()
            )
        if bool(body.email) == bool(body.phone):
            raise errors.OnlyOneIdentifierOnVerify
        if body.phone:
            return redemption.redeem_sms_code(
                type=body.type, phone=body.phone, code=body.token or "", caller=request.caller, at=timezone.now()
            )
        return redemption.redeem_email_code(
            type=body.type,
            email=body.email or "",
            code=body.token or "",
            password=body.password,
            caller=request.caller,
            at=timezone.now(),
        )


class ConfirmView(LinkEndpoint):
    """The target of the confirmation page's form.

    It needs no CSRF token: the service sets no cookie, and the request has no authority but the token of the link. A
    page that knows the token could open the link itself.
    """

    parser_classes = (FormParser,)

    @document(
        form=ConfirmForm,
        responses={303: _REDIRECT},
        errors=(errors.VerificationTypeMissing, errors.TokenMissing, BodyTooLarge),
        redirect_errors=_LINK_ERRORS,
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Redeem the link of the confirmation page of `GET /verify`."""
        form = cast(QueryDict, request.data)
        link_type, token, target = (_first(form, name) for name in ("type", "token", "redirect_to"))
        self.check(link_type, token)
        target = redirects.resolve(header=None, query=target, referer=None)
        return self.open_link(link_type, token, target=target, request=request)


class ResendView(Endpoint):
    throttle_scope = Bucket.RESEND
    captcha = True

    @document(
        body=ResendInput,
        query=(REDIRECT_TO,),
        responses={200: MessageAccepted},
        errors=(
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.EMAIL_REQUEST_ERRORS,
            *account_errors.SMS_REQUEST_ERRORS,
            *PKCE_ERRORS,
            account_errors.PhoneInvalid,
            errors.ResendTypeMissing,
            errors.ResendNeedsEmail,
            errors.ResendNeedsPhone,
            errors.OnlyOneIdentifierOnResend,
            errors.IdentifierMissingOnResend,
            account_errors.MailRequestsDisabled,
            errors.PhoneRequestsDisabled,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Resend the confirmation of a sign-up or of an email or phone change."""
        body = parsing.parse_body(request, ResendInput)
        message_id = resending.resend(
            type=body.type or "",
            email=body.email or "",
            phone=body.phone or "",
            code_challenge=body.code_challenge,
            code_challenge_method=body.code_challenge_method,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({"message_id": message_id})


def _first(form: QueryDict, name: str) -> str:
    return next(iter(form.getlist(name)), "")


def _with_message(target: str, *, in_query: bool) -> str:
    if in_query:
        target = redirects.with_query(target, {"message": _SECOND_CONFIRMATION_NEEDED})
    return redirects.with_fragment(target, {"message": _SECOND_CONFIRMATION_NEEDED, "sb": ""})

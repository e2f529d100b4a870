"""GET and POST /verify, POST /verify/confirm and POST /resend."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, NotRequired, TypedDict, cast

from django.http import HttpResponse, QueryDict
from rest_framework.parsers import FormParser
from rest_framework.response import Response

from accounts import error_sets
from accounts import errors as account_errors
from accounts.verification import confirm_page, errors, resending, verification
from accounts.verification.redemption import Redemption
from authsvc import clock, conf
from authsvc.api import parsing
from authsvc.api.openapi.document import REDIRECT_TO, Parameter, ResponseDoc, document
from authsvc.api.parsing import Body
from authsvc.api.renderers import SeeOther
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint, RedirectEndpoint, ServiceRequest
from authsvc.errors import BodyTooLarge
from authsvc.security import redirects
from tokens.api import error_sets as token_error_sets
from tokens.api.payloads import token_fragment, token_response
from tokens.api.schemas import Session
from tokens.errors import NoFlowForLink, UserBanned
from tokens.one_time.one_time_tokens import PKCE_PREFIX

LINK_TYPES = ("signup", "invite", "recovery", "magiclink", "email", "email_change")
_LINK_TOKEN = re.compile(rf"(?:{PKCE_PREFIX})?[0-9a-f]{{56}}")
_TOLD_TYPES = frozenset({"signup", "recovery", "invite"})
_LED_ON = ResponseDoc(
    "To the target: with tokens in the fragment, for a PKCE flow with `code` in the query, or with `error`,"
    " `error_code` and `error_description`.",
    headers=("Location",),
)
_UNUSABLE_LINK = (
    *error_sets.NEW_PASSWORD,
    *error_sets.CONTACT_CHANGE,
    errors.InvalidEmailVerificationType,
    errors.LinkExpired,
    UserBanned,
    NoFlowForLink,
)
_OTHER_SIDE = "Confirmation link accepted. Please proceed to confirm link sent to the other email"


class VerifyInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    type: str | None = None
    """What was sent: `signup`, `invite`, `recovery`, `magiclink`, `email`, `email_change`, `sms`, `phone_change`."""
    token: str | None = None
    """The code, with the address or number it was sent to; or the token of a link."""
    token_hash: str | None = None
    """The token of a link; nothing but `type` and `password` may come with it."""
    email: str | None = None
    phone: str | None = None
    redirect_to: str | None = None
    password: str | None = None
    """The first password of an account without one."""


class ConfirmForm(Body, frozen=True):
    """The fields of the confirm page; read by name."""

    needs: ClassVar[tuple[str, ...]] = ("type", "token")
    type: str | None = None
    token: str | None = None
    redirect_to: str | None = None


class ResendInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    type: str | None = None
    """`signup`, `email_change`, `sms` or `phone_change`."""
    email: str | None = None
    phone: str | None = None
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class SessionByCode(Session):
    """A session begun with the code or link of a message."""

    type: NotRequired[Literal["signup", "recovery", "invite"]]


class FirstConfirmation(TypedDict):
    """One of two addresses has agreed to a change; the other one is still to be asked."""

    code: Literal["200"]
    msg: str


class MessageAccepted(TypedDict):
    """The same answer whether or not there is somebody to send a message to."""

    message_id: str


class LinkEndpoint(RedirectEndpoint):
    """Redeems the token of a mailed link for a browser."""

    throttle_scope = Bucket.VERIFY

    def open_link(self, asked: str, token: str, *, target: str, request: ServiceRequest) -> HttpResponse:
        self.begin_redirecting(target, error_in_query=token.startswith(PKCE_PREFIX))
        done = verification.open_link(type=asked, token=token, caller=request.caller, at=clock.now())
        if done.awaits_other_side:
            return SeeOther(_told_in_redirect(target, in_query=token.startswith(PKCE_PREFIX)))
        if done.tokens is None:
            return SeeOther(redirects.with_query(target, {"code": done.auth_code or ""}))
        return SeeOther(redirects.with_fragment(target, token_fragment(done.tokens, type=done.type)))

    @staticmethod
    def check(asked: str, token: str) -> None:
        if not asked:
            raise errors.VerificationTypeMissing
        if not token:
            raise errors.TokenMissing


class VerifyView(LinkEndpoint):
    @document(
        query=(
            Parameter("type", "What the link is for.", values=LINK_TYPES, required=True),
            Parameter("token", "The token of the link.", required=True),
            REDIRECT_TO,
        ),
        responses={
            303: _LED_ON,
            200: ResponseDoc("A page with a button that redeems the link.", media_type="text/html"),
        },
        errors=(errors.VerificationTypeMissing, errors.TokenMissing),
        redirect_errors=_UNUSABLE_LINK,
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Redeem the link of a mail, in a browser.

        Where the operator has links confirmed (`AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED`), it answers a page with a
        button.
        """
        asked, token = parsing.query_parameter(request, "type"), parsing.query_parameter(request, "token")
        self.check(asked, token)
        target = self.redirect_target(request)
        if conf.current().mailer.link_confirm_page_enabled:
            return confirm_page.page(asked=asked, token=token, target=target, path=request.http.path)
        return self.open_link(asked, token, target=target, request=request)

    @document(
        body=VerifyInput,
        responses={200: (SessionByCode, FirstConfirmation)},
        errors=(
            *error_sets.NEW_PASSWORD,
            *error_sets.CONTACT_CHANGE,
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
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Redeem a code with its address or number, or the token of a link, for a session.

        Of a change of address that both addresses confirm, the first confirmation answers no session.
        """
        done = self._redeem(parsing.parse_body(request, VerifyInput), request)
        if done.awaits_other_side:
            return Response({"code": "200", "msg": _OTHER_SIDE})  # a text, unlike the code of an error
        told = {"type": done.type} if done.type in _TOLD_TYPES else {}
        assert done.tokens is not None  # noqa: S101  (only a browser is given a code instead)
        return Response(token_response(done.tokens, user=done.user, **told))

    @staticmethod
    def _redeem(body: VerifyInput, request: ServiceRequest) -> Redemption:
        """Tell a code with its address from the token of a link, and redeem it."""
        if not body.type:
            raise errors.VerificationTypeMissing
        if bool(body.token) == bool(body.token_hash):
            raise errors.TokenOrHashMissing
        link = body.token_hash
        if body.token and not body.email and not body.phone and _LINK_TOKEN.fullmatch(body.token):
            link = body.token
        elif body.token_hash and (body.email or body.phone or body.redirect_to):
            raise errors.OnlyTokenHashAllowed
        if link:
            return verification.redeem_link(
                type=body.type, token=link, password=body.password, caller=request.caller, at=clock.now()
            )
        if bool(body.email) == bool(body.phone):
            raise errors.OnlyOneIdentifierOnVerify
        if body.phone:
            return verification.redeem_sms_code(
                type=body.type, phone=body.phone, code=body.token or "", caller=request.caller, at=clock.now()
            )
        return verification.redeem_email_code(
            type=body.type,
            email=body.email or "",
            code=body.token or "",
            password=body.password,
            caller=request.caller,
            at=clock.now(),
        )


class ConfirmView(LinkEndpoint):
    """What the button of the confirm page posts to.

    There is no CSRF token: nothing here acts for whoever the browser is signed in as, the service sets no cookie, and
    the token of the link is all the authority there is. A page that has one to send could as well send the link itself.
    """

    parser_classes = (FormParser,)

    @document(
        form=ConfirmForm,
        responses={303: _LED_ON},
        errors=(errors.VerificationTypeMissing, errors.TokenMissing, BodyTooLarge),
        redirect_errors=_UNUSABLE_LINK,
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Redeem the link that the page of `GET /verify` shows a button for."""
        form = cast(QueryDict, request.data)
        asked, token, target = (_first(form, name) for name in ("type", "token", "redirect_to"))
        self.check(asked, token)
        target = redirects.resolve(header=None, query=target, referer=None)
        return self.open_link(asked, token, target=target, request=request)


class ResendView(Endpoint):
    throttle_scope = Bucket.RESEND
    captcha = True

    @document(
        body=ResendInput,
        query=(REDIRECT_TO,),
        responses={200: MessageAccepted},
        errors=(
            *error_sets.EMAIL_FORMAT,
            *error_sets.EMAIL_REQUEST,
            *error_sets.SMS_REQUEST,
            *token_error_sets.PKCE,
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
        """Send the confirmation of a sign-up, or of a change of address or number, once more."""
        body = parsing.parse_body(request, ResendInput)
        message_id = resending.resend(
            type=body.type or "",
            email=body.email or "",
            phone=body.phone or "",
            code_challenge=body.code_challenge,
            code_challenge_method=body.code_challenge_method,
            redirect_to=self.redirect_target(request),
            caller=request.caller,
            at=clock.now(),
        )
        return Response({"message_id": message_id})


def _first(form: QueryDict, name: str) -> str:
    return next(iter(form.getlist(name)), "")


def _told_in_redirect(target: str, *, in_query: bool) -> str:
    if in_query:
        target = redirects.with_query(target, {"message": _OTHER_SIDE})
    return redirects.with_fragment(target, {"message": _OTHER_SIDE, "sb": ""})

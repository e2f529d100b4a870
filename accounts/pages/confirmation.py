"""The page of links and codes of messages.

A link opens the page with its token; only the button redeems it, so neither a mail scanner nor a prefetching browser
does. It works in every browser, and shows the account to which it leads, so that a link of another person is noticed.
Without a token the page asks for the code of the message that this browser has requested.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, destinations
from accounts.pages.completion import complete_sign_in
from accounts.pages.forms import CodeForm
from accounts.pages.page import HostedPage
from accounts.profile import proofs
from accounts.verification import redemption, resending
from accounts.verification.redemption import Redemption
from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError
from tokens.sessions import browser_sessions, refresh_tokens, revocation

SIGN_UP, CODE, RECOVERY = "sign_up", "code", "recovery"
_PENDING = "message"
"""The message for which the browser waits: `kind`, `email` and `phone`. `message_link.html` reads it too."""
_CODE_TYPES = {SIGN_UP: "email", CODE: "email", RECOVERY: "recovery"}
_LINK_TEXTS: dict[str, tuple[str | Promise, str | Promise]] = {
    "signup": (_("Confirm your email address"), _("Confirm and sign in")),
    "invite": (_("Accept the invitation"), _("Accept and sign in")),
    "recovery": (_("Reset your password"), _("Continue")),
    "magiclink": (_("Sign in"), _("Sign in")),
    "email_change": (_("Change your email address"), _("Confirm the new address")),
}


class ConfirmationPage(HostedPage):
    referrer_policy = "strict-origin"  # the URL of a link has a token
    captcha = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "token" in request.GET:
            return self._show_link(type=request.GET.get("type", ""), token=request.GET["token"])
        return self._show_code_form()

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if "token" in request.POST:
            return self._redeem_link(type=request.POST.get("type", ""), token=request.POST["token"])
        if "resend" in request.POST:
            return self._resend()
        return self._redeem_code()

    def _show_link(self, *, type: str, token: str) -> HttpResponse:
        try:
            throttling.check(Bucket.VERIFY, self.request)
            account = redemption.find_account(type=type, token=token, caller=self.caller, at=self.at)
        except ApiError as error:
            return self._show_dead_link(error)
        title, button = _LINK_TEXTS.get(type, (_("Continue"), _("Continue")))
        current = browser_session.signed_in(self.request)
        return self.show(
            template="pages/link.html",
            title=title,
            button=button,
            fields={"type": type, "token": token},
            address=account.email_change if type == "email_change" else account.email,
            replaces=current is not None and current.user.id != account.id,
        )

    def _redeem_link(self, *, type: str, token: str) -> HttpResponse:
        try:
            throttling.check(Bucket.VERIFY, self.request)
            redeemed = redemption.redeem_link(
                type=type, token=token, password=None, needs_password=False, caller=self.caller, at=self.at
            )
        except ApiError as error:
            return self._show_dead_link(error)
        if redeemed.tokens is None:
            messages.success(self.request, _("This address is confirmed. Open the link in the other email as well."))
            return self.redirect(destinations.after_sign_in(self.request))
        current = browser_session.signed_in(self.request)
        if redeemed.type == "email_change" and current is not None and current.user.id == redeemed.user.id:
            # The browser keeps its session, which may have a second factor.
            revocation.revoke_session(
                refresh_tokens.decode(redeemed.tokens.refresh_token).session_id, reason="logout_local"
            )
            messages.success(self.request, _("Your email address is changed."))
            return self.redirect(destinations.after_sign_in(self.request))
        return self._complete(redeemed)

    def _show_dead_link(self, error: ApiError) -> HttpResponse:
        return self.show_error(error, template="pages/dead_link.html", title=_("This link does not work"))

    def _show_code_form(self, form: forms.Form | None = None, *, error: ApiError | None = None) -> HttpResponse:
        pending = self.request.session.get(_PENDING)
        if not pending:
            return self.redirect(destinations.with_next(reverse("pages:sign_in"), destinations.next_path(self.request)))
        by_email = bool(pending["email"])
        context = {
            "template": "pages/enter_code.html",
            "title": _("Check your email") if by_email else _("Check your phone"),
            "address": pending["email"] or pending["phone"],
            "by_email": by_email,
            "kind": pending["kind"],
            "minutes": int(conf.current().mailer.otp_exp.total_seconds() // 60),
        }
        form = form if form is not None else CodeForm()
        if error is not None:
            return self.show_error(error, form=form, **context)
        return self.show(form, status=400 if form.errors else 200, **context)

    def _redeem_code(self) -> HttpResponse:
        pending = self.request.session.get(_PENDING)
        form = CodeForm(self.request.POST)
        if not pending or not form.is_valid():
            return self._show_code_form(form)
        code = form.cleaned_data["code"].replace(" ", "")
        try:
            throttling.check(Bucket.VERIFY, self.request)
            if pending["phone"]:
                redeemed = redemption.redeem_sms_code(
                    type="sms", phone=pending["phone"], code=code, caller=self.caller, at=self.at
                )
            else:
                redeemed = redemption.redeem_email_code(
                    type=_CODE_TYPES[pending["kind"]],
                    email=pending["email"],
                    code=code,
                    password=None,
                    needs_password=False,
                    caller=self.caller,
                    at=self.at,
                )
        except ApiError as error:
            return self._show_code_form(form, error=error)
        return self._complete(redeemed, kind=pending["kind"])

    def _resend(self) -> HttpResponse:
        pending = self.request.session.get(_PENDING)
        if not pending:
            return self._show_code_form()
        try:
            throttling.check(Bucket.RESEND, self.request)
            self.check_limits()
            resending.resend(
                type="signup" if pending["email"] else "sms",
                email=pending["email"],
                phone=pending["phone"],
                code_challenge=None,
                code_challenge_method=None,
                redirect_to=link_target(self),
                caller=self.caller,
                at=self.at,
            )
        except ApiError as error:
            return self._show_code_form(error=error)
        messages.success(self.request, _("Another message is on its way."))
        return self.redirect(destinations.own_path(self.request))

    def _complete(self, redeemed: Redemption, *, kind: str = "") -> HttpResponse:
        """Sign the browser in. A recovery, and an account without a password that is to have one, go on with it."""
        assert redeemed.tokens is not None  # noqa: S101  (the first of two confirmations has been answered)
        # An invited user has a password that nothing matches.
        lacks_password = redeemed.type == "invite" or (
            redeemed.type == "signup" and not proofs.has_password(redeemed.user)
        )
        response = complete_sign_in(self, redeemed.tokens)
        if redeemed.type != "recovery" and (kind == CODE or not lacks_password):
            return response
        path = destinations.with_next(reverse("pages:new_password"), destinations.next_path(self.request))
        if browser_sessions.needs_second_factor(self.current):
            path = destinations.with_next(reverse("pages:second_factor"), path)
        return self.redirect(path)


def link_target(page: HostedPage) -> str:
    """The `redirect_to` of a page's message: its link leads to this page, and from there to `next`."""
    path = destinations.with_next(reverse("pages:confirm"), destinations.next_path(page.request))
    return destinations.absolute(path, request=page.request)


def remember_message(page: HostedPage, kind: str, *, email: str, phone: str) -> None:
    """Store that the browser waits for the message of this kind."""
    page.request.session[_PENDING] = {"kind": kind, "email": email, "phone": phone}


def await_message(page: HostedPage, kind: str, *, email: str, phone: str) -> HttpResponse:
    """Go to the page that asks for the code of the message that this page has requested."""
    remember_message(page, kind, email=email, phone=phone)
    return page.redirect(destinations.with_next(reverse("pages:confirm"), destinations.next_path(page.request)))

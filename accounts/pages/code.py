"""Sign-in without a password: a link and a code by email, or a code by SMS."""

from __future__ import annotations

from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext_lazy as _

from accounts.pages import confirmation
from accounts.pages.forms import IdentifierForm
from accounts.pages.page import HostedPage
from accounts.sign_in import errors as sign_in_errors
from accounts.sign_in import passwordless
from authsvc import conf
from authsvc.api.throttling import Bucket


def has_email_codes() -> bool:
    return conf.current().signup.email_enabled and conf.current().signup.magic_link_enabled


def has_codes() -> bool:
    return has_email_codes() or conf.current().signup.phone_enabled


class CodePage(HostedPage):
    template = "pages/code.html"
    title = _("Sign in without a password")
    text = _("We will send you a link or a code that signs you in.")
    button = _("Send message")
    bucket = Bucket.OTP
    captcha = True

    def redirect_before_page(self) -> HttpResponse | None:
        """Raises MagicLinkDisabled."""
        if not has_codes():
            raise sign_in_errors.MagicLinkDisabled
        return None

    def create_form(self, data: QueryDict | None = None) -> IdentifierForm:
        return IdentifierForm(data, has_email=has_email_codes())

    def submit(self, form: IdentifierForm) -> HttpResponse:
        """As the API, a new address gets an account, so that the response does not reveal which ones have one."""
        email, phone = form.identifier["email"], form.identifier["phone"]
        if phone:
            passwordless.send_sms_code(
                phone=phone, data={}, channel="", create_user=True, caller=self.caller, at=self.at
            )
        else:
            passwordless.send_magic_link(
                email=email,
                data={},
                create_user=True,
                challenge=None,
                redirect_to=confirmation.link_target(self),
                caller=self.caller,
                at=self.at,
            )
        return confirmation.await_message(self, confirmation.CODE, email=email, phone=phone)

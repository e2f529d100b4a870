"""Sign-up with an email address or a phone number, and a password."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts import errors as account_errors
from accounts.pages import confirmation, language_choice, registry
from accounts.pages.completion import complete_sign_in
from accounts.pages.forms import IdentifierForm, describe_password
from accounts.pages.page import HostedPage
from accounts.sign_up import sign_up
from authsvc import conf
from authsvc.api.throttling import Bucket


class SignUpForm(IdentifierForm):
    password = forms.CharField(
        label=_("Password"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        describe_password(self.fields["password"])


class SignUpPage(HostedPage):
    template = "pages/sign_up.html"
    title = _("Create an account")
    button = _("Create account")
    form_class = SignUpForm
    bucket = Bucket.SIGNUPS
    captcha = True

    def redirect_before_page(self) -> HttpResponse | None:
        """Raises SignupDisabled."""
        if conf.current().signup.disabled:
            raise account_errors.SignupDisabled
        return None

    def get_context(self) -> dict[str, Any]:
        return {"providers": registry.providers.buttons() if registry.providers is not None else ()}

    def submit(self, form: SignUpForm) -> HttpResponse:
        """An address that has an account leads to the same page as a new one."""
        result = sign_up.sign_up(
            **form.identifier,
            password=form.cleaned_data["password"],
            data={"locale": language} if (language := language_choice.stored(self.request)) else {},
            channel="",
            code_challenge=None,
            code_challenge_method=None,
            redirect_to=confirmation.link_target(self),
            caller=self.caller,
            at=self.at,
        )
        if result.tokens is not None:
            return complete_sign_in(self, result.tokens)
        return confirmation.await_message(self, confirmation.SIGN_UP, **form.identifier)

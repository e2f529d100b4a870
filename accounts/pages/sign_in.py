"""Sign-in with a password, and sign-out."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, destinations
from accounts.pages.page import Page
from accounts.sign_in import password as password_sign_in
from authsvc import conf
from authsvc.api.throttling import Bucket
from tokens.sessions import browser_sessions, refresh_tokens, revocation
from tokens.sessions.lifecycle import TokenPair


class PasswordForm(forms.Form):
    name = forms.CharField(
        label=_("Email"),
        max_length=255,
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false", "inputmode": "email"}
        ),
    )
    password = forms.CharField(
        label=_("Password"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        signup = conf.current().signup
        if signup.phone_enabled:
            name = self.fields["name"]
            name.label = _("Email or phone") if signup.email_enabled else _("Phone")
            name.widget.attrs["inputmode"] = "text" if signup.email_enabled else "tel"


class SignInPage(Page):
    template = "pages/sign_in.html"
    title = _("Sign in")
    button = _("Sign in")
    form_class = PasswordForm
    bucket = Bucket.TOKEN
    captcha = True

    def redirect_before_page(self) -> HttpResponse | None:
        """A browser that is signed in goes on, unless `prompt=login` asks for a new sign-in."""
        if self.request.GET.get("prompt") == "login" or browser_session.signed_in(self.request) is None:
            return None
        return self.redirect(next_step(self))

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        """An application that has sent the browser here can fill in the address with `login_hint`."""
        return PasswordForm(data, initial={"name": self.request.GET.get("login_hint", "")})

    def get_context(self) -> dict[str, Any]:
        return {"signs_up": not conf.current().signup.disabled}

    def submit(self, form: PasswordForm) -> HttpResponse:
        name = form.cleaned_data["name"]
        is_email = "@" in name
        result = password_sign_in.sign_in_with_password(
            email=name if is_email else "",
            phone="" if is_email else name,
            password=form.cleaned_data["password"],
            caller=self.caller,
            at=self.at,
        )
        return complete_sign_in(self, result.tokens)


class SignOutPage(Page):
    """Ends the session of this browser; GET asks."""

    title = _("Sign out")
    button = _("Sign out")
    text = _("Do you want to sign out of this browser?")

    def submit(self, form: forms.Form) -> HttpResponse:
        if current := browser_session.signed_in(self.request):
            revocation.log_out_browser(current, caller=self.caller, at=self.at)
        browser_session.end(self.request)
        return self.redirect(destinations.with_next(reverse("pages:signed_out"), destinations.next_path(self.request)))


class SignedOutPage(Page):
    template = "pages/signed_out.html"
    title = _("Signed out")
    text = _("You are signed out of this browser.")


def complete_sign_in(page: Page, tokens: TokenPair) -> HttpResponse:
    """Bind the browser to the session of these tokens, which are discarded, and go to the next step."""
    session_id: UUID = refresh_tokens.decode(tokens.refresh_token).session_id
    browser_session.start(page.request, session_id=session_id, at=page.at)
    return page.redirect(next_step(page))


def next_step(page: Page) -> str:
    """The second factor if the session needs it, else the page after the sign-in."""
    path = destinations.after_sign_in(page.request)
    if browser_sessions.needs_second_factor(page.current):
        return destinations.with_next(reverse("pages:second_factor"), path)
    return path

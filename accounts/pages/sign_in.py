"""Sign-in with a password or a passkey, and sign-out."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, confirmation, destinations, registry
from accounts.pages.code import has_codes
from accounts.pages.completion import complete_sign_in, next_step
from accounts.pages.forms import IdentifierForm
from accounts.pages.page import HostedPage
from accounts.passkeys import authentication
from accounts.passkeys import form as passkey_form
from accounts.sign_in import password as password_sign_in
from accounts.sign_in.errors import EmailNotConfirmed, PhoneNotConfirmed
from authsvc import conf
from authsvc.api import captcha, throttling
from authsvc.api.throttling import Bucket
from authsvc.security import redirects
from tokens.sessions import revocation


class SignInForm(IdentifierForm):
    password = forms.CharField(
        label=_("Password"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class SignInPage(HostedPage):
    template = "pages/sign_in.html"
    title = _("Sign in")
    button = _("Sign in")
    form_class = SignInForm
    bucket = Bucket.TOKEN
    captcha = True

    def redirect_before_page(self) -> HttpResponse | None:
        """A browser that is signed in goes on, unless `prompt=login` asks for a new sign-in."""
        if self.request.GET.get("prompt") == "login" or browser_session.signed_in(self.request) is None:
            return None
        return self.redirect(next_step(self))

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        """An application that has sent the browser here can fill in the address with `login_hint`."""
        return SignInForm(data, initial={"name": self.request.GET.get("login_hint", "")})

    def get_context(self) -> dict[str, Any]:
        signup = conf.current().signup
        return {
            "signs_up": not signup.disabled and (signup.email_enabled or signup.phone_enabled),
            "has_codes": has_codes(),
            "has_recovery": signup.email_enabled,
            "has_passkeys": passkey_form.is_enabled(),
            "providers": registry.providers.buttons() if registry.providers is not None else (),
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if self._asks_for_passkey:
            return self.attempt(None, self._prompt_for_passkey)
        if self._has_passkey_response:
            return self.attempt(None, self._sign_in_with_passkey)
        return super().post(request, *args, **kwargs)

    def check_limits(self) -> None:
        if self._asks_for_passkey:
            throttling.check(Bucket.PASSKEY_AUTHENTICATION, self.request)
            captcha.check_form(self.request)
        elif self._has_passkey_response:
            throttling.check(Bucket.TOKEN, self.request)
        else:
            super().check_limits()

    def submit(self, form: SignInForm) -> HttpResponse:
        try:
            result = password_sign_in.sign_in_with_password(
                **form.identifier,
                password=form.cleaned_data["password"],
                caller=self.caller,
                at=self.at,
            )
        except (EmailNotConfirmed, PhoneNotConfirmed):
            # The page then links to the one that takes the code, and sends another message.
            confirmation.remember_message(self, confirmation.SIGN_UP, **form.identifier)
            raise
        return complete_sign_in(self, result.tokens)

    @property
    def _asks_for_passkey(self) -> bool:
        return passkey_form.is_enabled() and self.request.POST.get("ask") == "passkey"

    @property
    def _has_passkey_response(self) -> bool:
        return passkey_form.is_enabled() and "credential" in self.request.POST

    def _prompt_for_passkey(self, _form: None) -> HttpResponse:
        ceremony = passkey_form.ceremony_variables(authentication.start(at=self.at), type="get")
        alternative = _("Use another way to sign in")
        return self.show(template="pages/key_prompt.html", ceremony=ceremony, alternative=alternative)

    def _sign_in_with_passkey(self, _form: None) -> HttpResponse:
        result = authentication.complete(passkey_form.read_response(self.request), caller=self.caller, at=self.at)
        return complete_sign_in(self, result.tokens)


class SignOutPage(HostedPage):
    """Ends the session of this browser; GET asks. An application can be named with `redirect_to`."""

    title = _("Sign out")
    button = _("Sign out")
    text = _("Do you want to sign out of this browser?")

    def redirect_before_page(self) -> HttpResponse | None:
        """Ask only a browser that is signed in."""
        is_needed = self.request.method == "POST" or browser_session.signed_in(self.request) is not None
        return None if is_needed else self._to_signed_out()

    def submit(self, form: forms.Form) -> HttpResponse:
        if current := browser_session.signed_in(self.request):
            revocation.sign_out_browser(current, caller=self.caller, at=self.at)
        browser_session.end(self.request)
        return self._to_signed_out()

    def _to_signed_out(self) -> HttpResponse:
        path = destinations.with_next(reverse("pages:signed_out"), destinations.next_path(self.request))
        target = destinations.redirect_target(self.request)
        return self.redirect(redirects.with_query(path, {"redirect_to": target}) if target else path)


class SignedOutPage(HostedPage):
    """Links to the application that has sent the browser here, if it is permitted as a redirect target."""

    template = "pages/signed_out.html"
    title = _("Signed out")
    text = _("You are signed out of this browser.")

    def redirect_before_page(self) -> HttpResponse | None:
        """Redirect signed-in users to their account, as the text is wrong for them."""
        return self.redirect(reverse("pages:account")) if browser_session.signed_in(self.request) else None

    def get_context(self) -> dict[str, Any]:
        return {"application": destinations.redirect_target(self.request)}

"""Recovery by email, and the new password."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts import errors as account_errors
from accounts.pages import browser_session, confirmation, destinations
from accounts.pages.forms import NewPasswordForm
from accounts.pages.page import HostedPage
from accounts.passwords import change_proofs
from accounts.profile import profile, proofs
from accounts.profile.profile import UserUpdateRequest
from accounts.recovery import recovery_emails
from authsvc import conf
from authsvc.api.throttling import Bucket
from tokens.sessions import aal


class RecoverForm(forms.Form):
    email = forms.CharField(label=_("Email"), max_length=255, widget=forms.EmailInput(attrs={"autocomplete": "email"}))


class RecoverPage(HostedPage):
    template = "pages/recover.html"
    title = _("Reset your password")
    text = _("Enter the email address of your account. We will email you a link.")
    button = _("Send email")
    form_class = RecoverForm
    bucket = Bucket.RECOVER
    captcha = True

    def redirect_before_page(self) -> HttpResponse | None:
        """Raises MailRequestsDisabled."""
        if not conf.current().signup.email_enabled:
            raise account_errors.MailRequestsDisabled
        return None

    def submit(self, form: RecoverForm) -> HttpResponse:
        """The response is the same for every address, and takes as long."""
        email = form.cleaned_data["email"]
        recovery_emails.send_recovery_email(
            email=email,
            challenge=None,
            redirect_to=confirmation.link_target(self),
            caller=self.caller,
            at=self.at,
        )
        return confirmation.await_message(self, confirmation.RECOVERY, email=email, phone="")


class NewPasswordPage(HostedPage):
    """Sets the password in a session that a link or code of a message has started."""

    template = "pages/new_password.html"
    title = _("New password")
    button = _("Set password")
    requires_user = True
    form_class = NewPasswordForm
    bucket = Bucket.USER

    def redirect_before_page(self) -> HttpResponse | None:
        if redirect := super().redirect_before_page():
            return redirect
        if not aal.is_recovery(entry.method for entry in self.current.amr):
            return self.redirect(destinations.after_sign_in(self.request))
        if self._needs_nonce and not profile.can_reset_password(self.current, at=self.at):
            return self.redirect(reverse("pages:password"))
        return None

    def get_context(self) -> dict[str, Any]:
        return {"user": self.user, "has_password": proofs.has_password(self.user)}

    def submit(self, form: NewPasswordForm) -> HttpResponse:
        """Change the password. Where that needs the nonce of a reauthentication, all sessions end instead."""
        password = form.cleaned_data["password"]
        if self._needs_nonce:
            profile.reset_password(self.current, self.user, password, caller=self.caller, at=self.at)
            browser_session.end(self.request)
            messages.success(self.request, _("The password is changed. Sign in with the new one."))
            return self.redirect(destinations.with_next(reverse("pages:sign_in"), destinations.next_path(self.request)))
        change = UserUpdateRequest(password=password)
        profile.update_user(self.current, self.user, change, redirect_to="", caller=self.caller, at=self.at)
        browser_session.renew(self.request)
        messages.success(self.request, _("The password is changed. All other sessions of your account have ended."))
        return self.redirect(destinations.after_sign_in(self.request))

    @property
    def _needs_nonce(self) -> bool:
        return change_proofs.needs_nonce(self.current, at=self.at)

"""A new password, with the policy, proofs and notification of the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session
from accounts.pages.account.account_page import ProofForm, ProofPage
from accounts.pages.forms import NewPasswordForm
from accounts.profile import profile, proofs
from accounts.profile.profile import UserUpdateRequest
from authsvc.api.throttling import Bucket
from tokens.sessions import aal


class PasswordChangeForm(ProofForm, NewPasswordForm):
    field_order = ("current_password", "password", "nonce")


class PasswordPage(ProofPage):
    template = "pages/account/password.html"
    title = _("Password")
    proof_form = PasswordChangeForm
    bucket = Bucket.USER
    back = "pages:password"

    @property
    def button(self) -> str | Promise:  # type: ignore[override]  # depends on the user
        return _("Change password") if proofs.has_password(self.user) else _("Set password")

    def proof_options(self) -> dict[str, bool]:
        """Ask for the current password even if settings do not require it, unless the user may have forgotten it."""
        is_recovering = aal.is_recovery(entry.method for entry in self.current.amr)
        return {**super().proof_options(), "needs_password": proofs.has_password(self.user) and not is_recovering}

    def get_context(self) -> dict[str, Any]:
        return {
            **super().get_context(),
            "account": self.user,
            "has_password": proofs.has_password(self.user),
            "is_managed": self.user.is_sso_user,
        }

    def submit(self, form: PasswordChangeForm) -> HttpResponse:
        values = form.cleaned_data
        request = UserUpdateRequest(
            password=values["password"],
            current_password=values.get("current_password"),
            nonce=values.get("nonce"),
            needs_current_password="current_password" in form.fields,
        )
        profile.update_user(self.current, self.user, request, redirect_to="", caller=self.caller, at=self.at)
        browser_session.renew(self.request)
        return self.done(_("Your password is changed. Your other sessions have ended."))

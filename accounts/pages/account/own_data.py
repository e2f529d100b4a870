"""The user's data: a copy of it, and the deletion of the account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session
from accounts.pages.account.account_page import AccountPage, ProofForm, ProofPage, without_separators
from accounts.pages.page import HostedPage
from accounts.profile import errors, own_account, proofs
from accounts.users.records import UserRecord
from authsvc import conf
from authsvc.api.throttling import Bucket


class DataPage(AccountPage):
    """Offers the copy, which the form downloads."""

    template = "pages/account/data.html"
    title = _("Your data")
    button = _("Download your data")

    def get_context(self) -> dict[str, Any]:
        return {**super().get_context(), "can_delete": can_delete() and not own_account.is_operator(self.user)}

    def submit(self, form: forms.Form) -> HttpResponse:
        document = own_account.export(self.current, self.user, caller=self.caller, at=self.at)
        name = f"account-{self.at:%Y-%m-%d}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(document, content_type="application/json", headers=headers)


class DeletionForm(ProofForm):
    address = forms.CharField(
        max_length=255,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
    )
    field_order = ("address", "current_password", "nonce")

    def __init__(self, *args: Any, expected: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._expected = expected
        self.fields["address"].label = gettext("Type %(text)s to confirm") % {"text": expected}

    def clean_address(self) -> str:
        text: str = self.cleaned_data["address"].strip()
        if self._expected.lower() not in (text.lower(), without_separators(text)):
            raise forms.ValidationError(gettext("This is not %(text)s.") % {"text": self._expected})
        return text


class DeletionPage(ProofPage):
    template = "pages/account/deletion.html"
    title = _("Delete your account")
    button = _("Delete account")
    bucket = Bucket.USER
    back = "pages:data"

    def redirect_before_page(self) -> HttpResponse | None:
        """Raises OperatorAccount."""
        if not can_delete():
            raise Http404
        step = super().redirect_before_page()
        if step is None and own_account.is_operator(self.user):
            raise errors.OperatorAccount
        return step

    def proof_options(self) -> dict[str, bool]:
        is_needed = own_account.needs_proof(self.current, at=self.at)
        by_password = proofs.has_password(self.user)
        return {"needs_password": is_needed and by_password, "needs_nonce": is_needed and not by_password}

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return DeletionForm(data, expected=_address(self.user), **self.proof_options())

    def get_context(self) -> dict[str, Any]:
        is_stuck = own_account.needs_proof(self.current, at=self.at) and not own_account.can_prove(self.user)
        return {**super().get_context(), "must_sign_in": is_stuck}

    def submit(self, form: DeletionForm) -> HttpResponse:
        own_account.delete(
            self.current,
            self.user,
            current_password=form.cleaned_data.get("current_password"),
            nonce=form.cleaned_data.get("nonce"),
            caller=self.caller,
            at=self.at,
        )
        browser_session.end(self.request)
        return self.redirect(reverse("pages:deleted"))


class DeletedPage(HostedPage):
    template = "pages/account/deleted.html"
    title = _("Your account is deleted")
    http_method_names = ["get", "head"]

    def redirect_before_page(self) -> HttpResponse | None:
        """Redirect signed-in users to their account, as the text is wrong for them."""
        return self.redirect(reverse("pages:account")) if browser_session.signed_in(self.request) else None


def can_delete() -> bool:
    return conf.current().pages.account_deletion_enabled


def _address(user: UserRecord) -> str:
    """The text that a user types to confirm: the own address."""
    return user.email or (f"+{user.phone}" if user.phone else str(user.id))

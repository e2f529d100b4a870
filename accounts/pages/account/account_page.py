"""Base classes of the account pages, and forms that several of them have."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.pages.error_texts import error_text
from accounts.pages.forms import SENT_CODE_ATTRIBUTES
from accounts.pages.page import HostedPage
from accounts.passwords import change_proofs
from accounts.profile import reauthentication
from authsvc.errors import ApiError

SEND_CODE = "send_code"
"""Name of the button that sends the code of a reauthentication."""


def format_day(time: str | None) -> str:
    """The day of a time of the API in the language of the page; empty without a time."""
    return date_format(datetime.fromisoformat(time)) if time else ""


class AccountPage(HostedPage):
    """A page of the signed-in user, with the navigation of the account."""

    template = "pages/account/form.html"
    requires_user = True
    back: ClassVar[str] = "pages:account"
    """The route of the page to which this one leads back."""

    def get_context(self) -> dict[str, Any]:
        match = self.request.resolver_match
        is_back = match is not None and match.view_name == self.back
        return {"layout": "pages/account_base.html", "back_url": "" if is_back else reverse(self.back)}

    def done(self, text: str | Promise) -> HttpResponse:
        """Back with a message of success."""
        messages.success(self.request, str(text))
        return self.redirect(reverse(self.back))

    def refuse(self, text: str | Promise) -> HttpResponse:
        """Back with a message of failure."""
        messages.error(self.request, str(text))
        return self.redirect(reverse(self.back))


class AccountRowPage(AccountPage):
    """A page of one row of the user, whose ID the route contains.

    Leads back with a message if the user has no such row: another tab may have removed it.
    """

    @cached_property
    def row(self) -> Any:
        """The row. Raises ApiError if there is none."""
        raise NotImplementedError

    def redirect_before_page(self) -> HttpResponse | None:
        if step := super().redirect_before_page():
            return step
        try:
            self.row  # noqa: B018  (raises)
        except ApiError as error:
            return self.refuse(error_text(error))
        return None


class QuestionPage(AccountPage):
    """A question whose button performs the action."""

    template = "pages/account/question.html"
    is_dangerous: ClassVar[bool] = False
    """True for an action that cannot be undone."""

    def get_context(self) -> dict[str, Any]:
        return {**super().get_context(), "is_dangerous": self.is_dangerous}


class NameForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=100, widget=forms.TextInput(attrs={"autocomplete": "off"}))


class ProofForm(forms.Form):
    """A form with the fields for the proofs that the change needs."""

    current_password = forms.CharField(
        label=_("Current password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    nonce = forms.CharField(
        label=_("Code from the message"),
        max_length=255,
        widget=forms.TextInput(attrs=SENT_CODE_ATTRIBUTES),
    )

    def __init__(self, data: Any = None, *, needs_password: bool, needs_nonce: bool, **options: Any) -> None:
        super().__init__(data, **options)
        if not needs_password:
            del self.fields["current_password"]
        if not needs_nonce:
            del self.fields["nonce"]

    @property
    def needs_nonce(self) -> bool:
        return "nonce" in self.fields


class ProofPage(AccountPage):
    """A page whose form asks for the proofs that settings require, and sends the code for one of them."""

    proof_form: ClassVar[type[ProofForm]]
    is_contact: ClassVar[bool] = False
    """True for a change of the email address or phone."""

    def proof_options(self) -> dict[str, bool]:
        """The options of the `ProofForm`."""
        return {
            "needs_password": change_proofs.needs_current_password(self.current),
            "needs_nonce": change_proofs.needs_nonce(self.current, is_contact=self.is_contact, at=self.at),
        }

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return self.proof_form(data, **self.proof_options())

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if SEND_CODE in request.POST:
            return self.send_code()
        return super().post(request, *args, **kwargs)

    def send_code(self) -> HttpResponse:
        """Send the code of a reauthentication to the user, and show the page with what was filled in."""
        filled = self.create_form()
        filled.initial = {
            name: self.request.POST.get(name, "") for name, field in filled.fields.items() if not _is_secret(field)
        }
        try:
            self.check_limits()
            if self.proof_options()["needs_nonce"]:
                reauthentication.send_code(self.user, caller=self.caller, at=self.at)
        except ApiError as error:
            return self.show_error(error, form=filled)
        return self.show(filled, notice=_("The code is on its way."))

    def get_context(self) -> dict[str, Any]:
        return {**super().get_context(), "sends_code": self.proof_options()["needs_nonce"]}


def _is_secret(field: forms.Field) -> bool:
    return isinstance(field.widget, forms.PasswordInput)


def without_separators(phone: str) -> str:
    """Remove spaces, hyphens, slashes, dots and brackets from a phone number."""
    return phone.translate(str.maketrans("", "", " -/().\u00a0"))

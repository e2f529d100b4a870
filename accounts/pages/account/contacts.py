"""Changes of the email address and phone, each confirmed by a code that is sent to the new one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.pages import destinations
from accounts.pages.account.account_page import ProofForm, ProofPage, without_separators
from accounts.pages.forms import CodeForm
from accounts.profile import profile
from accounts.profile.profile import UserUpdateRequest
from accounts.verification import redemption
from accounts.verification.redemption import Redemption
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError
from tokens.models import TokenType
from tokens.one_time import one_time_tokens

_CONFIRM, _WITHDRAW = "confirm", "withdraw"
"""Values of the buttons that complete and withdraw a change."""


class NewEmailForm(ProofForm):
    email = forms.EmailField(
        label=_("New email address"), max_length=255, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    field_order = ("email",)


class NewPhoneForm(ProofForm):
    phone = forms.CharField(
        label=_("New phone number"),
        help_text=_("With the country code, for example +49 170 1234567."),
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "tel", "inputmode": "tel"}),
    )
    field_order = ("phone",)

    def clean_phone(self) -> str:
        return without_separators(self.cleaned_data["phone"])


class ContactCodeForm(CodeForm):
    sent_to = forms.ChoiceField(label=_("The code was sent to"))
    field_order = ("sent_to", "code")

    def __init__(self, data: Any = None, *, recipients: list[str], is_phone: bool) -> None:
        super().__init__(data)
        field = self.fields["sent_to"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  (narrowing)
        field.choices = [(recipient, f"+{recipient}" if is_phone else recipient) for recipient in recipients]
        if len(recipients) == 1:
            field.widget = forms.HiddenInput()
            field.initial = recipients[0]


class ContactPage(ProofPage):
    """Shows the contact and its pending change; changes, completes and withdraws it."""

    template = "pages/account/contact.html"
    bucket = Bucket.USER
    is_contact = True
    kind: ClassVar[Literal["email", "phone"]]
    saved: ClassVar[str | Promise]

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if _WITHDRAW in request.POST:
            return self._withdraw()
        if _CONFIRM in request.POST:
            return self._confirm()
        return super().post(request, *args, **kwargs)

    def submit(self, form: ProofForm) -> HttpResponse:
        values = form.cleaned_data
        request = UserUpdateRequest(
            email=values.get("email"),
            phone=values.get("phone"),
            nonce=values.get("nonce"),
            current_password=values.get("current_password"),
        )
        # The link in the email leads to the page that confirms it, and from there to this one.
        link = destinations.with_next(reverse("pages:confirm"), reverse(self.back))
        updated = profile.update_user(
            self.current,
            self.user,
            request,
            redirect_to=destinations.absolute(link, request=self.request),
            caller=self.caller,
            at=self.at,
        )
        if self._pending(updated):
            return self.redirect(reverse(self.back))
        is_changed = getattr(updated, self.kind) != getattr(self.user, self.kind)
        return self.done(self.saved if is_changed else _("Your account has this address or number already."))

    def get_context(self) -> dict[str, Any]:
        recipients = self._recipients()
        return {
            **super().get_context(),
            "account": self.user,
            "kind": self.kind,
            "pending": self._pending(self.user),
            "is_expired": not recipients,
            "is_managed": self.user.is_sso_user,
            "confirmation": self._confirmation_form() if recipients else None,
            "needs_both": len(recipients) > 1,
        }

    def _confirm(self) -> HttpResponse:
        form = self._confirmation_form(self.request.POST)
        try:
            throttling.check(Bucket.VERIFY, self.request)
            if not form.is_valid():
                return self.show(status=400, confirmation=form)
            redeemed = self._redeem(sent_to=form.cleaned_data["sent_to"], code=form.cleaned_data["code"].strip())
        except ApiError as error:
            return self.show_error(error, confirmation=form)
        if redeemed.awaits_second_confirmation:
            return self.done(_("The code is correct. Enter the code that was sent to the other address too."))
        return self.done(self.saved)

    def _withdraw(self) -> HttpResponse:
        try:
            profile.withdraw_change(self.current, self.user, self.kind, caller=self.caller, at=self.at)
        except ApiError as error:
            return self.show_error(error)
        return self.done(_("The change is withdrawn."))

    def _confirmation_form(self, data: Any = None) -> ContactCodeForm:
        return ContactCodeForm(data, recipients=self._recipients(), is_phone=self.kind == "phone")

    def _pending(self, user: Any) -> str:
        return str(user.email_change if self.kind == "email" else user.phone_change)

    def _recipients(self) -> list[str]:
        """The addresses whose codes are outstanding, the new one first."""
        if not self._pending(self.user):
            return []
        types = (
            (TokenType.EMAIL_CHANGE_NEW, TokenType.EMAIL_CHANGE_CURRENT)
            if self.kind == "email"
            else (TokenType.PHONE_CHANGE,)
        )
        tokens = [one_time_tokens.find(user_id=self.user.id, token_type=type) for type in types]
        return [token.relates_to for token in tokens if token is not None and token.is_fresh(self.at)]

    def _redeem(self, *, sent_to: str, code: str) -> Redemption:
        raise NotImplementedError


class EmailPage(ContactPage):
    title = _("Email address")
    button = _("Change email address")
    proof_form = NewEmailForm
    back = "pages:email"
    kind = "email"
    saved = _("Your email address is changed.")

    def _redeem(self, *, sent_to: str, code: str) -> Redemption:
        return redemption.redeem_email_code(
            type="email_change",
            email=sent_to,
            code=code,
            password=None,
            caller=self.caller,
            at=self.at,
            within=self.current,
        )


class PhonePage(ContactPage):
    title = _("Phone number")
    button = _("Change phone number")
    proof_form = NewPhoneForm
    back = "pages:phone"
    kind = "phone"
    saved = _("Your phone number is changed.")

    def _redeem(self, *, sent_to: str, code: str) -> Redemption:
        return redemption.redeem_sms_code(
            type="phone_change", phone=sent_to, code=code, caller=self.caller, at=self.at, within=self.current
        )

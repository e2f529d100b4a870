"""Passkeys: registration, names, and removal."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django import forms
from django.http import Http404, HttpResponse, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.models import Passkey
from accounts.pages.account.account_page import AccountPage, AccountRowPage, NameForm, QuestionPage
from accounts.passkeys import form as passkey_form
from accounts.passkeys import management, registration
from accounts.passkeys.errors import PasskeyNotFound
from authsvc.api.throttling import Bucket


class PasskeyNameForm(NameForm):
    """Checks the size of the name before the device creates the passkey."""

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if len(name.encode()) > management.MAX_NAME_BYTES:
            raise forms.ValidationError(_("The name is too long."))
        return name


class _PasskeysPage(AccountPage):
    back = "pages:passkeys"

    def redirect_before_page(self) -> HttpResponse | None:
        if not passkey_form.is_enabled():
            raise Http404
        return super().redirect_before_page()


class PasskeysPage(_PasskeysPage):
    template = "pages/account/passkeys.html"
    title = _("Passkeys")
    http_method_names = ["get", "head"]

    def get_context(self) -> dict[str, Any]:
        return {
            **super().get_context(),
            "passkeys": management.list_passkeys(self.user),
            "is_managed": self.user.is_sso_user,
        }


class NewPasskeyPage(_PasskeysPage):
    """Asks for a name, prompts the browser to create a passkey, and stores it under the name."""

    title = _("Add a passkey")
    text = _("A passkey signs you in with the screen lock of your device, without a password.")
    form_class = PasskeyNameForm
    bucket = Bucket.FACTOR_VERIFY

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return PasskeyNameForm(data, initial={"name": gettext("Passkey")})

    def submit(self, form: PasskeyNameForm) -> HttpResponse:
        name = form.cleaned_data["name"]
        if "credential" not in self.request.POST:
            started = registration.start(self.current, self.user, at=self.at)
            ceremony = passkey_form.ceremony_variables(started, type="create")
            return self.show(form, template="pages/account/ceremony.html", ceremony=ceremony, name=name)
        response = passkey_form.read_response(self.request)
        added = registration.complete(self.current, self.user, response, caller=self.caller, at=self.at)
        management.rename(self.user, added.id, friendly_name=name, caller=self.caller, at=self.at)
        return self.done(_("Your passkey is added."))


class _PasskeyPage(_PasskeysPage, AccountRowPage):
    bucket = Bucket.USER

    @cached_property
    def row(self) -> Passkey:
        row = Passkey.objects.filter(id=self.kwargs["passkey_id"], user_id=self.user.id).first()
        if row is None:
            raise PasskeyNotFound
        return row

    def name(self) -> str:
        return self.row.friendly_name or gettext("Passkey")


class PasskeyNamePage(_PasskeyPage):
    title = _("Rename passkey")
    button = _("Save")
    form_class = PasskeyNameForm

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return PasskeyNameForm(data, initial={"name": self.row.friendly_name})

    def submit(self, form: PasskeyNameForm) -> HttpResponse:
        name = form.cleaned_data["name"]
        management.rename(self.user, self.row.id, friendly_name=name, caller=self.caller, at=self.at)
        return self.done(gettext("Renamed: %(name)s") % {"name": name})


class PasskeyRemovalPage(_PasskeyPage, QuestionPage):
    title = _("Remove passkey")
    button = _("Remove")
    is_dangerous = True

    def get_context(self) -> dict[str, Any]:
        text = gettext("“%(name)s” can no longer be used to sign in. Sessions that it started stay.")
        return {**super().get_context(), "text": text % {"name": self.name()}}

    def submit(self, form: forms.Form) -> HttpResponse:
        name = self.name()
        management.remove(self.current, self.user, self.row.id, caller=self.caller, at=self.at)
        return self.done(gettext("Removed: %(name)s") % {"name": name})

"""The profile: name, picture and language, which the user metadata contains."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext_lazy as _

from accounts.pages import language_choice
from accounts.pages.account.account_page import AccountPage
from accounts.profile import profile
from accounts.profile.profile import UserUpdateRequest
from authsvc import languages
from authsvc.api.throttling import Bucket

_KEYS = {"name": ("full_name", "name"), "picture": ("picture", "avatar_url"), "locale": ("locale",)}
"""Field → keys of the user metadata. Providers and applications use all of them."""


class ProfileForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=255, required=False, widget=forms.TextInput(attrs={"autocomplete": "name"})
    )
    picture = forms.URLField(
        label=_("Picture URL"),
        help_text=_("Applications may show this picture. The address begins with https://."),
        max_length=2048,
        required=False,
        assume_scheme="https",
        widget=forms.URLInput(attrs={"autocomplete": "photo"}),
    )
    locale = forms.ChoiceField(label=_("Language"), required=False)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["locale"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101  (narrowing)
        field.choices = [("", _("Language of the browser")), *languages.names().items()]

    def clean_picture(self) -> str:
        address: str = self.cleaned_data["picture"]
        if address and not address.startswith("https://"):
            raise forms.ValidationError(_("Enter an address that begins with https://."))
        return address


class ProfilePage(AccountPage):
    title = _("Profile")
    button = _("Save")
    form_class = ProfileForm
    bucket = Bucket.USER
    back = "pages:profile"

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return ProfileForm(data, initial=self._values())

    def submit(self, form: ProfileForm) -> HttpResponse:
        data = {key: form.cleaned_data[field] or None for field in form.changed_data for key in _KEYS[field]}
        if data:
            request = UserUpdateRequest(data=data)
            profile.update_user(self.current, self.user, request, redirect_to="", caller=self.caller, at=self.at)
        response = self.done(_("Your profile is saved."))
        if "locale" in form.changed_data:
            language_choice.remember(response, form.cleaned_data["locale"])
        return response

    def _values(self) -> dict[str, str]:
        metadata = self.user.user_metadata
        texts = {field: [metadata.get(key) for key in keys] for field, keys in _KEYS.items()}
        values = {
            field: next((text for text in found if isinstance(text, str) and text), "")
            for field, found in texts.items()
        }
        # A provider reports de-DE or en_GB.
        return values | {"locale": languages.of_user(metadata)}

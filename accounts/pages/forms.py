"""Forms and fields that several pages share."""

from __future__ import annotations

from typing import Any, TypedDict

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from accounts.mfa.code_form import CODE_ATTRIBUTES
from accounts.passwords import policy
from authsvc import conf

_IDENTIFIER_ATTRIBUTES = {"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
SENT_CODE_ATTRIBUTES = {**CODE_ATTRIBUTES, "inputmode": "numeric"}
"""HTML attributes of an input for a code of a message or an app."""


class CodeForm(forms.Form):
    code = forms.CharField(label=_("Code"), max_length=255, widget=forms.TextInput(attrs=SENT_CODE_ATTRIBUTES))


class Identifier(TypedDict):
    """One of the two is empty."""

    email: str
    phone: str


class IdentifierForm(forms.Form):
    """Asks for an email address or a phone number, as far as the settings permit them."""

    name = forms.CharField(label=_("Email"), max_length=255, widget=forms.TextInput(attrs=_IDENTIFIER_ATTRIBUTES))

    def __init__(self, *args: Any, has_email: bool | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        signup, name = conf.current().signup, self.fields["name"]
        has_email = signup.email_enabled if has_email is None else has_email
        if signup.phone_enabled:
            name.label = _("Email or phone") if has_email else _("Phone")
            name.help_text = _("Enter a phone number with its country code, such as +1 555 123 4567.")
        name.widget.attrs["inputmode"] = "tel" if not has_email else "text" if signup.phone_enabled else "email"

    @property
    def identifier(self) -> Identifier:
        """The address as `email`, or the number as `phone`; the other one is empty."""
        name = self.cleaned_data["name"]
        return {"email": name, "phone": ""} if "@" in name else {"email": "", "phone": name}


class NewPasswordForm(forms.Form):
    password = forms.CharField(
        label=_("New password"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        describe_password(self.fields["password"])


def describe_password(field: forms.Field) -> None:
    """Add the rules of a new password to its field."""
    required = conf.current().passwords.required_characters
    length = format_lazy(_("At least {count} characters."), count=policy.min_length())
    characters = format_lazy(_("At least one character of each: {sets}"), sets=", ".join(required))
    field.help_text = format_lazy("{} {}", length, characters) if required else length

"""Forms of the console about users."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

from django import forms

from accounts.administration import errors as administration_errors
from accounts.administration import notes
from accounts.administration.user_administration import UserChanges
from accounts.models import User
from accounts.users import identifiers
from authsvc import conf, operator_access
from authsvc.api.parsing import StrictJSONParser
from authsvc.errors import BadJson
from authsvc.security import redirects

BANS = (
    ("1h", "1 hour"),
    ("24h", "1 day"),
    ("168h", "7 days"),
    ("720h", "30 days"),
    ("876000h", "Until it is lifted"),
)
MAX_INVITATIONS = 100
_SEPARATORS = re.compile(r"[\s,;]+")


class PasswordField(forms.CharField):
    """A new password, which may be empty."""

    def __init__(self, **options: Any) -> None:
        widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
        super().__init__(required=False, strip=False, widget=widget, **options)


class JSONObjectField(forms.JSONField):
    """A JSON object that a body of the API could contain."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}), **options)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        return json.dumps(value or {}, indent=2, ensure_ascii=False, sort_keys=True)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data  # the page repeats an invalid text as it was typed

    def to_python(self, value: Any) -> Any:
        text = (value or "").strip()
        if text[:1] in ("[", '"'):
            raise forms.ValidationError('Enter a JSON object, such as {"plan": "pro"}.')
        try:
            return StrictJSONParser().parse(io.BytesIO(text.encode() or b"{}"))
        except BadJson as error:
            raise forms.ValidationError("Enter a valid JSON.") from error


class BanForm(forms.Form):
    duration = forms.ChoiceField(label="For", choices=BANS, initial="24h")


class NoteForm(forms.Form):
    text = forms.CharField(label="Note", max_length=notes.MAX_LENGTH, widget=forms.Textarea(attrs={"rows": 4}))


class RoleForm(forms.Form):
    role = forms.ChoiceField(label="Role")
    grants_access = forms.BooleanField(
        label_suffix="",
        label="Grant operator access",
        required=False,
        help_text="Viewers see every account; other operators can also change accounts. Roles of AUTH_JWT_ADMIN_ROLES"
        " can use the administration API too.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ordinary = conf.current().jwt.default_group_name
        staff = [
            (role, f"{role} ({access.name.lower()})")
            for role in operator_access.roles()
            if (access := operator_access.access_of(role))
        ]
        choices = [*([(ordinary, ordinary)] if ordinary else []), *staff]
        self.fields["role"].choices = choices  # type: ignore[attr-defined]  # of a ChoiceField

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if operator_access.access_of(values.get("role")) is not None and not values.get("grants_access"):
            self.add_error("grants_access", "This role grants operator access. Tick the box to confirm.")
        return values


class ImpersonationForm(forms.Form):
    redirect_to = forms.CharField(
        label="Open the application at",
        max_length=redirects.MAX_TARGET_LENGTH,
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
        help_text="AUTH_SITE_URL, or a URL that AUTH_URI_ALLOW_LIST permits.",
    )
    is_exchanged = forms.BooleanField(
        label_suffix="",
        label="The application exchanges the token itself",
        required=False,
        help_text="For applications with PKCE or sign-in on the server: enter the URL of the page that reads token_hash"
        " and type.",
    )

    def clean_redirect_to(self) -> str:
        typed: str = self.cleaned_data["redirect_to"]
        if not redirects.is_permitted(typed):
            raise forms.ValidationError("AUTH_SITE_URL and AUTH_URI_ALLOW_LIST do not permit this URL.")
        return typed


class SetPasswordForm(forms.Form):
    """A typed password, or a generated one that is shown once."""

    password = PasswordField(
        label="New password", help_text="Leave empty to generate a password, which is then shown once."
    )


class NewUserForm(forms.Form):
    email = forms.CharField(label="Email", required=False, max_length=255, widget=forms.EmailInput)
    phone = forms.CharField(
        label="Phone", required=False, max_length=32, help_text="With country code: +49 170 1234567"
    )
    is_confirmed = forms.BooleanField(
        label_suffix="",
        label="Email and phone are confirmed",
        required=False,
        help_text="The user can sign in without a message.",
    )
    password = PasswordField(label="Password", help_text="Without one the user signs in by a link or a code.")
    user_metadata = JSONObjectField(label="User metadata (JSON)")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if not values.get("email") and not values.get("phone"):
            raise forms.ValidationError("Enter an email address or a phone number.")
        return values


class InvitationForm(forms.Form):
    email = forms.CharField(
        label="Email addresses",
        max_length=256 * MAX_INVITATIONS,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
        help_text=f"One, or up to {MAX_INVITATIONS} separated by lines, spaces or commas.",
    )
    user_metadata = JSONObjectField(label="User metadata (JSON)")
    shown_cost = forms.CharField(required=False, widget=forms.HiddenInput)
    """Digest of the addresses whose cost the page has shown."""

    def clean_email(self) -> list[str]:
        """The different addresses, at least one."""
        texts = [text for text in _SEPARATORS.split(self.cleaned_data["email"]) if text]
        addresses = list({text.casefold(): text for text in texts}.values())
        if not addresses or len(addresses) > MAX_INVITATIONS:
            raise forms.ValidationError(f"Enter one to {MAX_INVITATIONS} email addresses.")
        return addresses


class EditForm(forms.Form):
    """The values that an operator can change. The values that the operator saw come back in hidden fields."""

    email = forms.CharField(
        label="Email", required=False, max_length=255, widget=forms.EmailInput, show_hidden_initial=True
    )
    phone = forms.CharField(label="Phone", required=False, max_length=32, show_hidden_initial=True)
    is_confirmed = forms.BooleanField(
        label_suffix="", label="A changed email or phone is confirmed", required=False, initial=True
    )
    user_metadata = JSONObjectField(label="User metadata (JSON)", show_hidden_initial=True)
    app_metadata = JSONObjectField(label="App metadata (JSON)", show_hidden_initial=True)

    def changes(self, row: User) -> UserChanges:
        """The values that the operator changed and the row does not have yet. Raises NothingChanged."""
        values = self.cleaned_data
        email = self._address_change("email", normalise=identifiers.lower_email, current=row.email or "")
        phone = self._address_change("phone", normalise=identifiers.bare_phone, current=row.phone or "")
        changes = UserChanges(
            email=email or None,
            phone=phone or None,
            email_confirm=True if email and values["is_confirmed"] else None,
            phone_confirm=True if phone and values["is_confirmed"] else None,
            user_metadata=self._metadata_changes("user_metadata") or None,
            app_metadata=self._metadata_changes("app_metadata") or None,
        )
        if changes == UserChanges():
            raise administration_errors.NothingChanged
        return changes

    def _address_change(self, name: str, *, normalise: Callable[[str], str], current: str) -> str:
        """The address that the operator typed; empty if it is the one that the page contained, or `current`."""
        typed: str = self.cleaned_data[name]
        shown = self.data.get(self.add_initial_prefix(name), current)
        return "" if normalise(typed) in (normalise(shown), current) else typed

    def _metadata_changes(self, name: str) -> dict[str, Any]:
        """The top-level keys that the operator changed; None for those that were removed.

        Keys that have been added or changed by others meanwhile keep their values.
        """
        field = self.fields[name]
        shown = field.clean(self.data.get(self.add_initial_prefix(name)) or "{}")
        typed = self.cleaned_data[name]
        changed = {key: value for key, value in typed.items() if key not in shown or _text(shown[key]) != _text(value)}
        return changed | {key: None for key in shown if key not in typed}


def _text(value: Any) -> str:
    """A text for comparisons of JSON values, because 1 equals True in Python."""
    return json.dumps(value, sort_keys=True)

"""The form for a new password of an operator."""

from __future__ import annotations

from typing import Any

from django import forms

from accounts.passwords import policy


class RepeatedPasswordForm(forms.Form):
    password = forms.CharField(
        label="New password", strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    repeated = forms.CharField(
        label="Repeat the new password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].help_text = f"At least {policy.min_length()} characters."

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("password") and values.get("repeated") and values["password"] != values["repeated"]:
            self.add_error("repeated", "The two passwords differ.")
        return values

"""The last fields of an action's page: the text that the operator types, and the reason."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest
from django.utils.html import format_html

from authsvc.console import operators

_WRONG_NAME = "The typed text differs. No action taken."


class ConfirmationForm(forms.Form):
    """Asks for the name of the row, where the operator must type it, and for the reason.

    `actor_of` reads the reason again for the audit trail.
    """

    typed_name = forms.CharField(
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
        error_messages={"required": _WRONG_NAME},
    )
    reason = forms.CharField(
        max_length=operators.MAX_REASON_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "State the reason. No action taken."},
    )

    def __init__(self, request: HttpRequest, *, is_bound: bool, name: str = "", needs_reason: bool = False) -> None:
        """`name`: the text to type; empty for none."""
        data = {"typed_name": request.POST.get("typed_name", ""), "reason": operators.reason_of(request)}
        super().__init__(data if is_bound else None)
        self._name = name
        if name:
            self.fields["typed_name"].label = format_html("Type <strong>{}</strong> to confirm", name)
        else:
            del self.fields["typed_name"]
        self.fields["reason"].required = needs_reason
        self.fields["reason"].label = f"Reason ({'' if needs_reason else 'optional, '}for the audit trail)"

    def clean_typed_name(self) -> str:
        typed: str = self.cleaned_data["typed_name"]
        if typed.casefold() != self._name.strip().casefold():
            raise forms.ValidationError(_WRONG_NAME)
        return typed

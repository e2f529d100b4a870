"""Forms that name and remove a factor or passkey."""

from __future__ import annotations

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from authsvc.console.account.account_view import render_form, to_account
from authsvc.errors import ApiError

CONFIRMED = "confirmed"


class CredentialNameForm(forms.Form):
    name = forms.CharField(label="Name", max_length=100, widget=forms.TextInput(attrs={"autocomplete": "off"}))


def ask_name(request: HttpRequest, *, title: str, current_name: str, rename: Callable[[str], object]) -> HttpResponse:
    """A form for a new name. Calls `rename` with it, which may raise ApiError."""
    is_submitted = request.method == "POST"
    form = CredentialNameForm(request.POST if is_submitted else None, initial={"name": current_name})
    error = None
    if is_submitted and form.is_valid():
        try:
            rename(form.cleaned_data["name"])
        except ApiError as refusal:
            error = refusal
        else:
            messages.success(request, f"Renamed: {form.cleaned_data['name']}")
            return to_account()
    return render_form(request, title=title, form=form, status=400 if is_submitted else 200, error=error)


def ask_removal(
    request: HttpRequest, *, title: str, text: str, name: str, remove: Callable[[], object]
) -> HttpResponse:
    """A question before `remove` is called, which may raise ApiError."""
    error = None
    if CONFIRMED in request.POST:
        try:
            remove()
        except ApiError as refusal:
            error = refusal
        else:
            messages.success(request, f"Removed: {name}")
            return to_account()
    return render_form(
        request,
        title=title,
        text=text,
        error=error,
        action={"is_dangerous": True},
        fields={CONFIRMED: "1"},
    )

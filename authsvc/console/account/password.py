"""Change of the operator's password, with the policy, proofs and notifications of the API."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from accounts.passwords import change_proofs, hashing
from accounts.profile import profile, reauthentication
from accounts.profile.profile import UserUpdateRequest
from accounts.users.queries import get_user_record
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of
from authsvc.console.account.account_view import render_form, to_account
from authsvc.console.sign_in.new_password_form import RepeatedPasswordForm
from authsvc.errors import ApiError
from tokens.sessions.users import SignedInUser

_TITLE = "Change password"
_TEXT = "All other sessions of your account end."


class ChangePasswordForm(RepeatedPasswordForm):
    current_password = forms.CharField(
        label="Current password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autofocus": True, "autocomplete": "current-password"}),
    )
    nonce = forms.CharField(
        label="Code from the message",
        max_length=255,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "spellcheck": "false"}),
    )
    field_order = ("current_password", "password", "repeated", "nonce")

    def __init__(self, data: Any, *, has_password: bool, needs_nonce: bool) -> None:
        super().__init__(data)
        if not has_password:
            del self.fields["current_password"]
        if not needs_nonce:
            del self.fields["nonce"]


def change(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Ask for the current and the new password; the form field `send` requests the code that settings may require."""
    user, at, caller = get_user_record(current), timezone.now(), caller_of(request)
    needs_nonce = change_proofs.needs_nonce(current, at=at)
    is_submitted = request.method == "POST" and "send" not in request.POST
    form = ChangePasswordForm(
        request.POST if is_submitted else None,
        has_password=hashing.stored_hash(user) not in (None, hashing.NO_PASSWORD),
        needs_nonce=needs_nonce,
    )
    extra_button = {"name": "send", "label": "Send me a code"} if needs_nonce else None
    text, error, status = _TEXT, None, 200
    if request.method == "POST":
        status = 400 if is_submitted else 200
        try:
            throttling.check(Bucket.USER, request)
            if not is_submitted and needs_nonce:
                reauthentication.send_code(user, caller=caller, at=at)
                text = "The code is on its way. " + _TEXT
            elif form.is_valid():
                values = form.cleaned_data
                update = UserUpdateRequest(
                    password=values["password"],
                    current_password=values.get("current_password"),
                    nonce=values.get("nonce"),
                    needs_current_password=True,
                )
                profile.update_user(current, user, update, redirect_to="", caller=caller, at=at)
                messages.success(request, "Password changed. Other sessions have ended.")
                return to_account()
        except ApiError as refusal:
            error = refusal
    return render_form(
        request, title=_TITLE, text=text, form=form, status=status, error=error, extra_button=extra_button
    )

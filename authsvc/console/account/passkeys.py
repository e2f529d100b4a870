"""Passkeys of the operator: registration, names, and removal."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from accounts.models import Passkey
from accounts.passkeys import errors, management, registration
from accounts.passkeys import form as passkey_form
from accounts.users.queries import get_user_record
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of
from authsvc.console.account import naming
from authsvc.console.account.account_view import render_form, to_account
from authsvc.console.account.naming import CredentialNameForm
from authsvc.errors import ApiError
from tokens.sessions.users import SignedInUser


class OperatorPasskeyForm(CredentialNameForm):
    """Checks the size of the name before the device creates the passkey."""

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if len(name.encode()) > management.MAX_NAME_BYTES:
            raise forms.ValidationError(errors.PasskeyNameTooLong.message)
        return name


def add(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Ask for a name, prompt the browser to create a passkey, and store it under the name."""
    user, at, caller = get_user_record(current), timezone.now(), caller_of(request)
    form = OperatorPasskeyForm(request.POST if request.method == "POST" else None, initial={"name": "Passkey"})
    error = None
    if request.method == "POST":
        try:
            _require_enabled()
            throttling.check(Bucket.FACTOR_VERIFY, request)
            if "credential" in request.POST and form.is_valid():
                response = passkey_form.read_response(request)
                added = registration.complete(current, user, response, caller=caller, at=at)
                name = form.cleaned_data["name"]
                management.rename(user, added.id, friendly_name=name, caller=caller, at=at)
                messages.success(request, "Passkey added.")
                return to_account()
            if form.is_valid():
                started = registration.start(current, user, at=at)
                ceremony = passkey_form.ceremony_variables(started, type="create")
                return render_form(request, title="Add passkey", ceremony=ceremony, name=form.cleaned_data["name"])
        except ApiError as refusal:
            error = refusal
    status = 400 if request.method == "POST" else 200
    return render_form(request, title="Add passkey", form=form, status=status, error=error)


def rename(request: HttpRequest, current: SignedInUser, passkey_id: UUID) -> HttpResponse:
    user = get_user_record(current)
    row = _passkey(current, passkey_id)

    def call(name: str) -> None:
        management.rename(user, passkey_id, friendly_name=name, caller=caller_of(request), at=timezone.now())

    return naming.ask_name(request, title="Rename passkey", current_name=row.friendly_name, rename=call)


def remove(request: HttpRequest, current: SignedInUser, passkey_id: UUID) -> HttpResponse:
    user = get_user_record(current)
    name = _passkey(current, passkey_id).friendly_name or "Passkey"

    def call() -> None:
        management.remove(current, user, passkey_id, caller=caller_of(request), at=timezone.now())

    text = f"“{name}” can no longer be used to sign in. Sessions that it started stay."
    return naming.ask_removal(request, title="Remove passkey", text=text, name=name, remove=call)


def _require_enabled() -> None:
    if not passkey_form.is_enabled():
        raise errors.PasskeysDisabled


def _passkey(current: SignedInUser, passkey_id: UUID) -> Passkey:
    row = Passkey.objects.filter(id=passkey_id, user_id=current.user.id).first()
    if row is None:
        raise errors.PasskeyNotFound
    return row

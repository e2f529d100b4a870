"""Second factors of the operator: enrolment of apps and keys, names, and removal."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import mark_safe

from accounts.mfa import challenges, enrolment, key_form, removal, verification
from accounts.mfa.enrolment import EnrolmentRequest
from accounts.mfa.errors import FactorNotFound
from accounts.mfa.factor_types import FactorResponse
from accounts.models import FactorType
from accounts.users import queries
from accounts.users.queries import get_user_record
from accounts.users.records import FactorRecord, UserRecord
from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of, page_caller_of
from authsvc.console.account import naming
from authsvc.console.account.account_view import render_form
from authsvc.console.account.naming import CredentialNameForm
from authsvc.console.account.overview import factor_label
from authsvc.console.sign_in import console_session
from authsvc.errors import ApiError
from tokens.sessions.users import SignedInUser

_UNFINISHED = "enrolment"
"""Name of the cookie's value with the ID of the factor whose enrolment the operator has begun."""


class AppCodeForm(forms.Form):
    code = forms.CharField(
        label="Code of the app",
        max_length=20,
        widget=forms.TextInput(
            attrs={"autofocus": True, "autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
        ),
    )


def add_app(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Ask for the name of an authenticator app, and start its enrolment."""
    title = "Add authenticator app"
    user = get_user_record(current)
    form, error = _name_form(request, user, default="Authenticator app"), None
    if request.method == "POST" and form.is_valid():
        try:
            _enroll(request, current, user, FactorType.TOTP, name=form.cleaned_data["name"])
            return HttpResponseRedirect(reverse("admin:account_app_code"))
        except ApiError as refusal:
            error = refusal
    return render_form(request, title=title, form=form, status=_status(request), error=error)


def verify_app(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Show the secret of the new app, and verify its first code."""
    user, at, caller = get_user_record(current), timezone.now(), caller_of(request)
    factor_id = _unfinished_id(request)
    totp = enrolment.unfinished_totp(user, factor_id)
    if totp is None:
        return HttpResponseRedirect(reverse("admin:account_app"))
    form, error = AppCodeForm(request.POST if request.method == "POST" else None), None
    if request.method == "POST" and form.is_valid():
        try:
            throttling.check(Bucket.FACTOR_VERIFY, request)
            challenge = challenges.create(current, user, factor_id, caller=caller, at=at)
            response = FactorResponse(challenge_id=challenge.id, code=form.cleaned_data["code"].replace(" ", ""))
            verification.verify(current, user, factor_id, response, caller=caller, at=at)
            return _complete(request)
        except ApiError as refusal:
            error = refusal
    return render_form(
        request,
        title="Add authenticator app",
        form=form,
        status=_status(request),
        error=error,
        totp={"secret": totp.secret, "uri": totp.uri, "svg": mark_safe(totp.qr_code)},  # noqa: S308  (own SVG)
        button="Verify",
    )


def add_key(request: HttpRequest, current: SignedInUser) -> HttpResponse:
    """Ask for the name of a security key, prompt for the key, and verify the response of the browser."""
    title = "Add security key"
    user = get_user_record(current)
    error = None
    if "credential" in request.POST:
        try:
            _verify_key(request, current, user)
            return _complete(request)
        except ApiError as refusal:
            error = refusal
        form = _name_form(request, user, default="Security key", is_bound=False)
    else:
        form = _name_form(request, user, default="Security key")
        if request.method == "POST" and form.is_valid():
            try:
                factor_id = _enroll(request, current, user, FactorType.WEBAUTHN, name=form.cleaned_data["name"])
                enrolled_user = queries.require(user.id)
                ceremony = key_form.start_ceremony(
                    request,
                    current,
                    enrolled_user,
                    factor_id,
                    type="create",
                    caller=caller_of(request),
                    at=timezone.now(),
                )
                return render_form(request, title=title, ceremony=ceremony)
            except ApiError as refusal:
                error = refusal
    return render_form(request, title=title, form=form, status=_status(request), error=error)


def rename(request: HttpRequest, current: SignedInUser, factor_id: UUID) -> HttpResponse:
    user = get_user_record(current)
    factor = _factor(user, factor_id)

    def call(name: str) -> None:
        enrolment.rename(user, factor_id, friendly_name=name, caller=caller_of(request), at=timezone.now())

    return naming.ask_name(request, title="Rename second factor", current_name=factor.friendly_name or "", rename=call)


def remove(request: HttpRequest, current: SignedInUser, factor_id: UUID) -> HttpResponse:
    user = get_user_record(current)
    name = factor_label(_factor(user, factor_id))

    def call() -> None:
        removal.unenroll(
            current,
            user,
            factor_id,
            keeps_last=conf.current().console.second_factor_required,
            caller=caller_of(request),
            at=timezone.now(),
        )

    text = f"“{name}” can no longer be used at sign-in. With the last factor, the recovery codes are deleted as well."
    return naming.ask_removal(request, title="Remove second factor", text=text, name=name, remove=call)


def _enroll(request: HttpRequest, current: SignedInUser, user: UserRecord, type: FactorType, *, name: str) -> UUID:
    """Start an enrolment, in place of one that this browser began earlier and did not complete."""
    throttling.check(Bucket.FACTOR_CHALLENGE, request)
    removal.delete_unfinished(user, _unfinished_id(request))
    enrolled = enrolment.enroll(
        current,
        user,
        EnrolmentRequest(factor_type=type, friendly_name=name),
        caller=caller_of(request),
        at=timezone.now(),
    )
    console_session.set_value(request, _UNFINISHED, str(enrolled.id))
    return enrolled.id


def _verify_key(request: HttpRequest, current: SignedInUser, user: UserRecord) -> None:
    throttling.check(Bucket.FACTOR_VERIFY, request)
    response = key_form.read_response(request, type="create")
    caller, at = page_caller_of(request), timezone.now()
    verification.verify(current, user, _unfinished_id(request), response, caller=caller, at=at)


def _complete(request: HttpRequest) -> HttpResponse:
    """The new factor has raised the session to aal2, and so the cookie follows."""
    page = console_session.get_value(request, console_session.NEXT)
    console_session.set_value(request, console_session.NEXT, "")
    console_session.set_value(request, _UNFINISHED, "")
    console_session.step_up(request)
    messages.success(request, "Second factor added. Other sessions without one have ended.")
    return HttpResponseRedirect(page or reverse("admin:account"))


def _factor(user: UserRecord, factor_id: UUID) -> FactorRecord:
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise FactorNotFound


def _name_form(request: HttpRequest, user: UserRecord, *, default: str, is_bound: bool = True) -> CredentialNameForm:
    """Propose a name that no other factor of the user has."""
    posted = request.POST if request.method == "POST" and is_bound else None
    return CredentialNameForm(posted, initial={"name": enrolment.free_name(user, default)})


def _unfinished_id(request: HttpRequest) -> UUID:
    return console_session.get_id(request, _UNFINISHED)


def _status(request: HttpRequest) -> int:
    return 400 if request.method == "POST" else 200

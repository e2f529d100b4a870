"""Sign-in with a password or a passkey, as the API does it, and sign-out."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from accounts.passkeys import form as passkey_form
from accounts.sign_in import password as password_sign_in
from authsvc import operator_access
from authsvc.api import captcha, throttling
from authsvc.api.exception_handler import with_error
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of, page_caller_of
from authsvc.console import pages
from authsvc.console.sign_in import console_session, passkey
from authsvc.errors import ApiError
from tokens.sessions import refresh_tokens, revocation


class OperatorSignInForm(forms.Form):
    name = forms.CharField(
        label="Email or phone",
        max_length=255,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "username", "autocapitalize": "none"}),
    )
    password = forms.CharField(strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}))


@pages.csrf_protected
def sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in page. Redirects operators who are already signed in."""
    if current := console_session.signed_in(request):
        if step := console_session.next_step(current):
            return HttpResponseRedirect(f"{reverse(step)}?{urlencode({'next': pages.next_url(request)})}")
        return HttpResponseRedirect(pages.next_url(request))
    if request.method != "POST":
        return _repeat_within_site(request) if _comes_from_other_site(request) else _page(request, OperatorSignInForm())
    if passkey_form.is_enabled() and ("ask" in request.POST or "credential" in request.POST):
        return _sign_in_with_passkey(request)
    form = OperatorSignInForm(request.POST)
    try:
        throttling.check(Bucket.TOKEN, request)
        captcha.check_form(request)
        if not form.is_valid():
            return _page(request, form, status=400)
        _start_session(request, name=form.cleaned_data["name"], password=form.cleaned_data["password"])
    except ApiError as error:
        if error.status >= 500:
            raise
        form.add_error(None, error.message)
        return with_error(request, _page(request, form, status=error.status), error)
    return HttpResponseRedirect(pages.next_url(request))


@require_POST
@pages.csrf_protected
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session and clear the cookie."""
    if current := console_session.signed_in(request):
        revocation.sign_out(current, scope="local", caller=caller_of(request), at=timezone.now())
    console_session.end(request)
    return HttpResponseRedirect(reverse("admin:login"))


def _comes_from_other_site(request: HttpRequest) -> bool:
    """True for a link on another site, with which browsers send no cookie of the console (SameSite=Strict)."""
    return request.headers.get("Sec-Fetch-Site") == "cross-site" and settings.SESSION_COOKIE_NAME not in request.COOKIES


def _repeat_within_site(request: HttpRequest) -> HttpResponse:
    """A page that requests the sign-in again, with the cookies: an operator who is signed in sees no form."""
    url = f"{reverse('admin:login')}?{urlencode({'next': pages.next_url(request)})}"
    return pages.render_standalone(request, "operator/repeat.html", title="Open the console", url=url)


def _sign_in_with_passkey(request: HttpRequest) -> HttpResponse:
    """Prompt for a passkey (form field `ask`), or sign in with the response of the browser."""
    try:
        if "ask" in request.POST:
            throttling.check(Bucket.PASSKEY_AUTHENTICATION, request)
            captcha.check_form(request)
            return pages.render_standalone(
                request,
                "operator/passkey.html",
                title="Sign in with a passkey",
                ceremony=passkey.start_sign_in(),
                next=pages.next_url(request),
            )
        throttling.check(Bucket.TOKEN, request)
        at = timezone.now()
        session_id = passkey.sign_in(request, not_after=at + console_session.MAX_AGE, at=at)
    except ApiError as error:
        if error.status >= 500:
            raise
        page = _page(request, OperatorSignInForm(), status=error.status, problem=error.message)
        return with_error(request, page, error)
    console_session.start(request, session_id=session_id, at=at)
    return HttpResponseRedirect(pages.next_url(request))


def _start_session(request: HttpRequest, *, name: str, password: str) -> None:
    """Sign an operator in.

    Raises the errors of the password grant; users who are not operators get the error for a wrong password.
    """
    at = timezone.now()
    is_email = "@" in name
    signed_in = password_sign_in.sign_in_with_password(
        email=name if is_email else "",
        phone="" if is_email else name,
        password=password,
        caller=page_caller_of(request),
        at=at,
        roles=operator_access.roles(),
        not_after=at + console_session.MAX_AGE,
    )
    # The tokens are discarded: the browser gets the cookie only.
    session_id = refresh_tokens.decode(signed_in.tokens.refresh_token).session_id
    console_session.start(request, session_id=session_id, at=at)


def _page(request: HttpRequest, form: OperatorSignInForm, *, status: int = 200, problem: str = "") -> HttpResponse:
    return pages.render_with_captcha(
        request,
        "operator/sign_in.html",
        status=status,
        title="Sign in",
        form=form,
        problem=problem,
        accepts_passkeys=passkey_form.is_enabled(),
        next=pages.next_url(request),
    )

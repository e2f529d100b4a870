"""Sign-in with a password, as the API does it, and sign-out."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from accounts.sign_in import password as password_sign_in
from authsvc import conf
from authsvc.api import captcha, throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of, client_address
from authsvc.console import operators, pages
from authsvc.console.sign_in import console_session
from authsvc.errors import ApiError
from tokens.sessions import refresh_tokens, revocation


class SignInForm(forms.Form):
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
        if console_session.needs_second_factor(current):
            return HttpResponseRedirect(
                f"{reverse('admin:second_step')}?{urlencode({'next': pages.next_url(request)})}"
            )
        return HttpResponseRedirect(pages.next_url(request))
    if request.method != "POST":
        return _page(request, SignInForm())
    form = SignInForm(request.POST)
    try:
        throttling.check(Bucket.TOKEN, request)
        _check_captcha(request)
        if not form.is_valid():
            return _page(request, form, status=400)
        _start_session(request, name=form.cleaned_data["name"], password=form.cleaned_data["password"])
    except ApiError as error:
        if error.status >= 500:
            raise
        form.add_error(None, error.message)
        return pages.with_error(request, _page(request, form, status=error.status), error)
    return HttpResponseRedirect(pages.next_url(request))


@require_POST
@pages.csrf_protected
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session and clear the cookie."""
    if current := console_session.signed_in(request):
        revocation.log_out(current, scope="local", caller=caller_of(request), at=timezone.now())
    console_session.end(request)
    return HttpResponseRedirect(reverse("admin:login"))


def _check_captcha(request: HttpRequest) -> None:
    """Require a solved captcha, if captchas are enabled. Raises CaptchaFailed or CaptchaUnavailable."""
    if widget := captcha.widget():
        captcha.verify(token=request.POST.get(widget.field, ""), client_ip=client_address(request))


def _start_session(request: HttpRequest, *, name: str, password: str) -> None:
    """Raises the errors of the password grant; users who are not operators get the error for a wrong password."""
    at = timezone.now()
    is_email = "@" in name
    signed_in = password_sign_in.sign_in_with_password(
        email=name if is_email else "",
        phone="" if is_email else name,
        password=password,
        caller=caller_of(request),
        at=at,
        roles=operators.roles(),
        not_after=at + console_session.MAX_AGE,
    )
    # The tokens are discarded: the browser gets the cookie only.
    session_id = refresh_tokens.decode(signed_in.tokens.refresh_token).session_id
    console_session.start(request, session_id=session_id, at=at)


def _page(request: HttpRequest, form: SignInForm, *, status: int = 200) -> HttpResponse:
    widget = captcha.widget()
    page = pages.render_standalone(
        request,
        "operator/sign_in.html",
        status=status,
        title="Sign in",
        form=form,
        captcha=widget,
        site_key=conf.current().captcha.site_key,
        next=pages.next_url(request),
    )
    if widget and conf.current().captcha.site_key:
        page.headers["Content-Security-Policy"] = pages.content_policy(captcha_origins=widget.origins)
    return page

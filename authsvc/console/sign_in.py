"""Into the console and out of it: the password by the API's own journey."""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.sign_in import password as sign_in
from authsvc import clock, conf
from authsvc.api import callers
from authsvc.api.throttling import Bucket
from authsvc.api.views import Endpoint
from authsvc.console import authentication, csrf, pages
from authsvc.errors import ApiError
from tokens.sessions import lifecycle, refresh_tokens


class SignInForm(forms.Form):
    name = forms.CharField(
        label="Email or phone",
        max_length=255,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "username", "autocapitalize": "none"}),
    )
    password = forms.CharField(strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}))


@csrf.refused_from_elsewhere
def enter(request: HttpRequest) -> HttpResponse:
    """The sign-in page. Who is in already is sent on."""
    if found := authentication.signed_in(request):
        if authentication.needs_second_step(found):
            return HttpResponseRedirect(f"{reverse('admin:second_step')}?{urlencode({'next': pages.wanted(request)})}")
        return HttpResponseRedirect(pages.wanted(request))
    if request.method != "POST":
        return _form(request, SignInForm())
    form = SignInForm(request.POST)
    try:
        Endpoint.throttle(Bucket.TOKEN, request)
        if not form.is_valid():
            return _form(request, form, status=400)
        _start(request, name=form.cleaned_data["name"], password=form.cleaned_data["password"])
    except ApiError as error:
        if error.status >= 500:
            raise
        return _refused(request, form, error)
    return HttpResponseRedirect(pages.wanted(request))


@require_POST
@csrf.refused_from_elsewhere
def leave(request: HttpRequest) -> HttpResponse:
    """End the session behind the cookie, not just the cookie."""
    if found := authentication.signed_in(request):
        lifecycle.log_out(found, scope="local", caller=callers.caller_of(request), at=clock.now())
    authentication.end(request)
    return HttpResponseRedirect(reverse("admin:login"))


def _start(request: HttpRequest, *, name: str, password: str) -> None:
    """Raises the errors of the password grant; to users who are no operators, that of a wrong password."""
    at = clock.now()
    is_email = "@" in name
    done = sign_in.with_password(
        email=name if is_email else "",
        phone="" if is_email else name,
        password=password,
        caller=callers.caller_of(request),
        at=at,
        roles=conf.current().jwt.admin_roles,
        not_after=at + authentication.LONGEST,
    )
    # The tokens themselves go nowhere: what the browser gets is the cookie.
    authentication.begin(request, session_id=refresh_tokens.decode(done.tokens.refresh_token).session_id, at=at)


def _refused(request: HttpRequest, form: SignInForm, error: ApiError) -> HttpResponse:
    form.add_error(None, error.message)
    return pages.refused(request, _form(request, form, status=error.status), error)


def _form(request: HttpRequest, form: SignInForm, *, status: int = 200) -> HttpResponse:
    return pages.alone(
        request, "operator/sign_in.html", status=status, title="Sign in", form=form, next=pages.wanted(request)
    )

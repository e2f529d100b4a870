"""Password recovery of operators: an email with a link, and a page for the new password.

The link opens a page whose button redeems it, so that neither a mail scanner nor a prefetching browser uses it up. The
session that it starts can only verify the second factor and set the password, which ends it.
"""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode, urljoin

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from accounts.profile import profile
from accounts.recovery import recovery_emails
from accounts.users.queries import get_user_record
from accounts.verification import redemption
from authsvc import conf, operator_access
from authsvc.api import captcha, throttling
from authsvc.api.exception_handler import with_error
from authsvc.api.throttling import Bucket
from authsvc.caller import caller_of, page_caller_of
from authsvc.console import pages
from authsvc.console.sign_in import console_session
from authsvc.console.sign_in.new_password_form import RepeatedPasswordForm
from authsvc.errors import ApiError
from tokens.sessions import refresh_tokens

_MAX_AGE = timedelta(minutes=15)
"""Time for the second factor and the new password after the link has been redeemed."""
_SENT = "If the address belongs to an operator, a message with a link is on its way. The link works once."
_METHODS = ["GET", "HEAD", "POST"]


class AddressForm(forms.Form):
    email = forms.CharField(
        label="Email",
        max_length=255,
        widget=forms.TextInput(
            attrs={"autofocus": True, "autocomplete": "username", "autocapitalize": "none", "inputmode": "email"}
        ),
    )


@require_http_methods(_METHODS)
@pages.csrf_protected
def request_link(request: HttpRequest) -> HttpResponse:
    """Ask for the address. The response is the same for every address, and takes as long."""
    form = AddressForm(request.POST if request.method == "POST" else None)
    if request.method != "POST":
        return _address_page(request, form)
    try:
        throttling.check(Bucket.RECOVER, request)
        captcha.check_form(request)
        if not form.is_valid():
            return _address_page(request, form, status=400)
        recovery_emails.send_operator_recovery_email(
            email=form.cleaned_data["email"],
            roles=operator_access.roles(),
            # Not the host of the request, which an attacker may choose.
            page=urljoin(conf.origin(conf.current()), reverse("admin:reset_password")),
            caller=caller_of(request),
            at=timezone.now(),
        )
    except ApiError as error:
        if error.status >= 500:
            raise
        form.add_error(None, error.message)
        return with_error(request, _address_page(request, form, status=error.status), error)
    return pages.render_standalone(
        request, "operator/sign_in_step.html", title="Check your email", text=_SENT, sign_in_link=True
    )


@require_http_methods(_METHODS)
@pages.csrf_protected
def redeem_link(request: HttpRequest) -> HttpResponse:
    """The page of the link, and its button, which exchanges the token for a session that can only recover."""
    if request.method != "POST":
        return _link_page(request, request.GET.get("token", ""))
    token, at = request.POST.get("token", ""), timezone.now()
    try:
        throttling.check(Bucket.VERIFY, request)
        redeemed = redemption.redeem_link(
            type="recovery",
            token=token,
            password=None,
            caller=page_caller_of(request),
            at=at,
            roles=operator_access.roles(),
            not_after=at + _MAX_AGE,
        )
    except ApiError as error:
        if error.status >= 500:
            raise
        page = _link_page(request, "", status=error.status, problem=error.message)
        return with_error(request, page, error)
    assert redeemed.tokens is not None  # noqa: S101  (only browsers of PKCE flows get a code instead)
    # The tokens are discarded: the browser gets the cookie only, which replaces that of an earlier sign-in.
    session_id = refresh_tokens.decode(redeemed.tokens.refresh_token).session_id
    console_session.start(request, session_id=session_id, at=at)
    return HttpResponseRedirect(reverse("admin:new_password"))


@require_http_methods(_METHODS)
@pages.csrf_protected
def set_password(request: HttpRequest) -> HttpResponse:
    """Ask for the new password, after the second factor. All sessions end, and the operator signs in with it."""
    current = console_session.signed_in(request)
    if current is None:
        return HttpResponseRedirect(reverse("admin:login"))
    step = console_session.next_step(current)
    if step != "admin:new_password":
        own_path = urlencode({"next": reverse("admin:new_password")})
        return HttpResponseRedirect(f"{reverse(step)}?{own_path}" if step else reverse("admin:index"))
    user = get_user_record(current)
    form = RepeatedPasswordForm(request.POST if request.method == "POST" else None)
    status = 200
    if request.method == "POST":
        status = 400
        try:
            throttling.check(Bucket.USER, request)
            if form.is_valid():
                profile.reset_password(
                    current, user, form.cleaned_data["password"], caller=caller_of(request), at=timezone.now()
                )
                console_session.end(request)
                messages.success(request, "The password is changed. Sign in with the new one.")
                return HttpResponseRedirect(reverse("admin:login"))
        except ApiError as error:
            if error.status >= 500:
                raise
            form.add_error(None, error.message)
            status = error.status
    return pages.render_standalone(
        request,
        "operator/sign_in_step.html",
        status=status,
        title="New password",
        # An operator who followed the link of another account notices it here.
        text=f"For the account of {user.email}. All sessions of the account end.",
        form=form,
        button="Set password",
        has_session=True,
    )


def _address_page(request: HttpRequest, form: AddressForm, *, status: int = 200) -> HttpResponse:
    return pages.render_with_captcha(
        request,
        "operator/sign_in_step.html",
        status=status,
        title="Forgotten password",
        text="Enter the email address of your operator account. You get a message with a link.",
        form=form,
        button="Send link",
        sign_in_link=True,
    )


def _link_page(request: HttpRequest, token: str, *, status: int = 200, problem: str = "") -> HttpResponse:
    page = pages.render_standalone(
        request,
        "operator/sign_in_step.html",
        status=status,
        title="Reset your password",
        problem=problem or ("" if token else "The link is incomplete."),
        text="Continue to choose a new password." if token else "",
        fields={"token": token} if token else {},
        button="Continue" if token else "",
        new_link=not token,
        sign_in_link=True,
    )
    # The URL of the page contains the token. `no-referrer` would remove the Origin of the form.
    page.headers["Referrer-Policy"] = "strict-origin"
    return page

"""Verifies captchas with hCaptcha or Turnstile. Without a verdict the request is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
from django.http import HttpRequest
from rest_framework.request import Request

from authsvc import conf
from authsvc.api import parsing
from authsvc.api.parsing import Body
from authsvc.caller import client_address
from authsvc.errors import ApiError, UnexpectedFailure
from authsvc.outgoing import http

_SERVICES = {
    "hcaptcha": "https://hcaptcha.com/siteverify",
    "turnstile": "https://challenges.cloudflare.com/turnstile/v0/siteverify",
}
_MAX_VERDICT_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """The captcha of a service, as a page shows it."""

    script: str
    """URL of the script that fills the elements of `css_class`."""
    css_class: str
    field: str
    """The form field that the script adds, with the captcha token."""
    origins: str
    """Sources of scripts, frames and styles for the page's Content-Security-Policy."""


_WIDGETS = {
    "hcaptcha": Widget(
        script="https://js.hcaptcha.com/1/api.js",
        css_class="h-captcha",
        field="h-captcha-response",
        origins="https://hcaptcha.com https://*.hcaptcha.com",
    ),
    "turnstile": Widget(
        script="https://challenges.cloudflare.com/turnstile/v0/api.js",
        css_class="cf-turnstile",
        field="cf-turnstile-response",
        origins="https://challenges.cloudflare.com",
    ),
}


class CaptchaExemption(Protocol):
    """Exempts requests from the captcha."""

    def applies_to(self, request: HttpRequest) -> bool: ...


exemption: CaptchaExemption | None = None
"""Set by `AppConfig.ready()` of the app that authenticates administrators."""


class CaptchaFailed(ApiError):
    status = 400
    error_code = "captcha_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(f"captcha protection: request disallowed ({reason})")


class CaptchaUnavailable(UnexpectedFailure):
    """The captcha service returned no verdict."""

    message = "captcha verification process failed"


class CaptchaAnswer(Body, frozen=True):
    captcha_token: str | None = None


class WithCaptcha(Body, frozen=True):
    """The members that the body of every endpoint with a captcha has."""

    gotrue_meta_security: CaptchaAnswer | None = None


class _Verdict(msgspec.Struct, frozen=True):
    success: bool = False
    error_codes: list[str] | None = msgspec.field(name="error-codes", default=None)


def widget() -> Widget | None:
    """The widget for pages of this service; None if captchas are disabled."""
    configured = conf.current().captcha
    return _WIDGETS[configured.provider] if configured.enabled else None


def check(request: Request) -> None:
    """Require a solved captcha if the request is not exempt.

    Raises BadJson, BodyTooLarge, and the errors of `verify`. The body can be read again.
    """
    if exemption is not None and exemption.applies_to(request):
        return
    security = parsing.parse_body(request, WithCaptcha).gotrue_meta_security
    verify(token=(security and security.captcha_token) or "", client_ip=client_address(request))


def check_form(request: HttpRequest) -> None:
    """Require a solved captcha in a form of a page, if captchas are enabled. Raises the errors of `verify`."""
    if form_widget := widget():
        verify(token=request.POST.get(form_widget.field, ""), client_ip=client_address(request))


def verify(*, token: str, client_ip: str) -> None:
    """Verify the captcha token of a client. Raises CaptchaFailed or CaptchaUnavailable."""
    configured = conf.current().captcha
    solution = token.strip()
    if not solution:
        raise CaptchaFailed("no captcha_token found")
    form = {"secret": configured.secret.reveal(), "response": solution, "remoteip": client_ip}
    try:
        # Some services send verdicts with an error status, so the status is ignored.
        response = http.send(
            "POST",
            _SERVICES[configured.provider],
            timeout=configured.timeout,
            max_bytes=_MAX_VERDICT_BYTES,
            form=form,
        )
        verdict = msgspec.json.decode(response.body, type=_Verdict)
    except (http.Unreachable, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CaptchaUnavailable from error
    if not verdict.success:
        raise CaptchaFailed(", ".join(verdict.error_codes or ()))

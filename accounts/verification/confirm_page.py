"""The page with a button that a mailed link may open, so that programs that follow links do not use them up."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.http import HttpResponse
from django.template.loader import render_to_string

from authsvc.api.renderers import NO_STORE


@dataclass(frozen=True, slots=True)
class _Wording:
    heading: str
    text: str
    button: str


_WORDINGS = {
    "signup": _Wording("Confirm your email address", "One more step, and your account is ready.", "Confirm"),
    "invite": _Wording("Accept the invitation", "You have been invited to create an account.", "Accept invitation"),
    "recovery": _Wording("Reset your password", "Continue to choose a new password.", "Continue"),
    "magiclink": _Wording("Sign in", "Continue to sign in with the link from your email.", "Sign in"),
    "email_change": _Wording("Change your email address", "Confirm that your email address is to change.", "Confirm"),
}
_OTHERWISE = _Wording("Continue", "Continue with the link from your email.", "Continue")


def page(*, asked: str, token: str, target: str, path: str) -> HttpResponse:
    """A form that redeems this link and then leads to `target`; `path` is that of the request for the page.

    Nothing is looked up: whether the link is still good is found out when it is redeemed.
    """
    nonce = secrets.token_urlsafe(16)
    context = {
        "wording": _WORDINGS.get(asked, _OTHERWISE),
        "fields": {"type": asked, "token": token, "redirect_to": target},
        # Relative, because only the browser knows below which path a proxy shows the service.
        "action": "confirm" if path.endswith("/") else "verify/confirm",
        "nonce": nonce,
    }
    # No `form-action`: browsers apply it to the redirects that follow too, and those lead wherever the site sends them.
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; frame-ancestors 'none'"
    headers = {
        "Cache-Control": NO_STORE,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",  # the address of the page holds the token
        "X-Content-Type-Options": "nosniff",
        "X-Robots-Tag": "noindex",
    }
    return HttpResponse(render_to_string("accounts/confirm.html", context), headers=headers)

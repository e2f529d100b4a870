"""The optional confirmation page of email links, which keeps link scanners from redeeming them."""

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
_DEFAULT_WORDING = _Wording("Continue", "Continue with the link from your email.", "Continue")


def render(*, link_type: str, token: str, target: str, path: str) -> HttpResponse:
    """A form that redeems this link and then redirects to `target`; `path` is the path of the request for the page.

    The link is not looked up: it is verified when the form is submitted.
    """
    nonce = secrets.token_urlsafe(16)
    context = {
        "wording": _WORDINGS.get(link_type, _DEFAULT_WORDING),
        "fields": {"type": link_type, "token": token, "redirect_to": target},
        # Relative, because a proxy may serve the service below another path.
        "action": "confirm" if path.endswith("/") else "verify/confirm",
        "nonce": nonce,
    }
    # No `form-action`: browsers apply it to the following redirects too, which lead to other origins.
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; frame-ancestors 'none'"
    headers = {
        "Cache-Control": NO_STORE,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",  # the URL of the page contains the token
        "X-Robots-Tag": "noindex",
    }
    return HttpResponse(render_to_string("accounts/confirm.html", context), headers=headers)

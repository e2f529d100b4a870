"""The optional confirmation page of email links, which keeps link scanners from redeeming them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from authsvc import languages
from authsvc.api.renderers import NO_STORE


@dataclass(frozen=True, slots=True)
class _Wording:
    heading: str | Promise
    text: str | Promise
    button: str | Promise


_WORDINGS = {
    "signup": _Wording(_("Confirm your email address"), _("One more step, and your account is ready."), _("Confirm")),
    "invite": _Wording(
        _("Accept the invitation"), _("You have been invited to create an account."), _("Accept invitation")
    ),
    "recovery": _Wording(_("Reset your password"), _("Continue to choose a new password."), _("Continue")),
    "magiclink": _Wording(_("Sign in"), _("Continue to sign in with the link from your email."), _("Sign in")),
    "email_change": _Wording(
        _("Change your email address"), _("Confirm that your email address is to change."), _("Confirm")
    ),
}
_DEFAULT_WORDING = _Wording(_("Continue"), _("Continue with the link from your email."), _("Continue"))


def render(*, link_type: str, token: str, target: str, path: str) -> HttpResponse:
    """A form that redeems this link and then redirects to `target`; `path` is the path of the request for the page.

    The link is not looked up: it is verified when the form is submitted.
    """
    nonce, language = secrets.token_urlsafe(16), languages.of_request()
    context = {
        "wording": _WORDINGS.get(link_type, _DEFAULT_WORDING),
        "fields": {"type": link_type, "token": token, "redirect_to": target},
        # Relative, because a proxy may serve the service below another path.
        "action": "confirm" if path.endswith("/") else "verify/confirm",
        "nonce": nonce,
        "language": language,
    }
    # No `form-action`: browsers apply it to the following redirects too, which lead to other origins.
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; frame-ancestors 'none'"
    headers = {
        "Cache-Control": NO_STORE,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",  # the URL of the page contains the token
        "X-Robots-Tag": "noindex",
    }
    with languages.use(language):
        return HttpResponse(render_to_string("accounts/confirm.html", context), headers=headers)

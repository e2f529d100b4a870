"""Sign-in with an external provider, by a PKCE flow whose verifier is in the cookie of the pages.

The browser returns with a code in the URL, which is worthless without the cookie. The page exchanges it and discards
the tokens.
"""

from __future__ import annotations

import hashlib
import secrets

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, destinations, registry
from accounts.pages.completion import complete_sign_in
from accounts.pages.error_texts import text_of_code
from accounts.pages.page import Page
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.flows import flow_states
from tokens.sessions import refresh_tokens, revocation

_FLOW = "flow"
"""The flow of this browser: `verifier`, `next`, and `links` for one that links an identity."""


def start_flow(page: Page, name: str, *, links: bool = False) -> HttpResponse:
    """Send the browser to a provider, to sign in or, with `links`, to link an identity to the signed-in user.

    The response is a page that refreshes to the provider, because `form-action` of the page with the button would block
    a redirect to another origin. Raises the errors of `/authorize`.
    """
    if registry.providers is None:
        raise Http404
    throttling.check(Bucket.AUTHORIZE, page.request)
    verifier = secrets.token_urlsafe(48)
    challenge = crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest())
    flow = registry.providers.start(
        name,
        code_challenge=challenge,
        target=destinations.absolute(reverse("pages:provider_callback"), request=page.request),
        linking_to=page.current if links else None,
        at=page.at,
    )
    path = destinations.next_path(page.request)
    page.request.session[_FLOW] = {"verifier": verifier, "next": path, "links": links}
    response = page.show(template="pages/leave.html", title=_("Continue at the provider"), url=flow.url)
    flow.set_cookies(response)
    return response


class ProviderPage(Page):
    """Starts the flow of the button `provider`."""

    template = "pages/provider_error.html"
    title = _("Sign in")
    button = _("Sign in")

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return self.redirect(destinations.with_next(reverse("pages:sign_in"), destinations.next_path(request)))

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return start_flow(self, request.POST.get("provider", ""))
        except ApiError as error:
            return self.show_error(error)


class ProviderCallbackPage(Page):
    """The return from a provider."""

    template = "pages/provider_error.html"
    title = _("The sign-in did not work")
    referrer_policy = "strict-origin"  # the URL has a code

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        flow = request.session.get(_FLOW) or {}
        code = request.GET.get("code", "")
        if not code or not flow:
            # The description comes from the provider, or from the author of a link to this page.
            return self._show_problem(text_of_code(request.GET.get("error_code", "")))
        try:
            throttling.check(Bucket.TOKEN, request)
            exchange = flow_states.exchange_code(
                auth_code=code, verifier=flow["verifier"], caller=self.caller, at=self.at
            )
        except ApiError as error:
            return self.show_error(error)
        request.session.pop(_FLOW)
        path = flow["next"] or reverse("pages:account")
        current = browser_session.signed_in(request)
        if flow["links"] and current is not None and current.user.id == exchange.user.id:
            revocation.revoke_session(refresh_tokens.decode(exchange.tokens.refresh_token).session_id)
            messages.success(request, _("The account at the provider is linked."))
            return self.redirect(path)
        return complete_sign_in(self, exchange.tokens, path=path)

    def _show_problem(self, text: str) -> HttpResponse:
        return self.show(status=400, problem=text or _("The provider has not confirmed the sign-in. Try again."))

"""Sign-in with an external provider, by a PKCE flow whose verifier is in the cookie of the pages.

The browser returns with a code in the URL, which is worthless without the cookie. The page exchanges it and discards
the tokens.
"""

from __future__ import annotations

import hashlib
import secrets

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages import destinations, registry
from accounts.pages.completion import complete_sign_in
from accounts.pages.error_texts import text_of_code
from accounts.pages.page import HostedPage
from accounts.pages.registry import StartedFlow
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.flows import flow_states

_FLOW = "flow"
"""The flow of this browser: `verifier` and `next`."""


def leave(page: HostedPage, flow: StartedFlow) -> HttpResponse:
    """Send the browser to the provider: a page that refreshes to it.

    `form-action` of the page with the button would block a redirect to another origin.
    """
    response = page.show(template="pages/leave.html", title=_("Continue at the provider"), url=flow.url)
    flow.set_cookies(response)
    return response


class ProviderPage(HostedPage):
    """Starts the flow of the button `provider`."""

    template = "pages/provider_error.html"
    title = _("Sign in")
    bucket = Bucket.AUTHORIZE

    def get(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return self.redirect(destinations.with_next(reverse("pages:sign_in"), destinations.next_path(request)))

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return self.attempt(None, self._start)

    def _start(self, _form: None) -> HttpResponse:
        if registry.providers is None:
            raise Http404
        name = self.request.POST.get("provider", "")
        verifier = secrets.token_urlsafe(48)
        flow = registry.providers.start(
            name,
            code_challenge=crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest()),
            target=destinations.absolute(reverse("pages:provider_callback"), request=self.request),
            linking_to=None,
            at=self.at,
        )
        self.request.session[_FLOW] = {"verifier": verifier, "next": destinations.next_path(self.request)}
        return leave(self, flow)


class ProviderCallbackPage(HostedPage):
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
        return complete_sign_in(self, exchange.tokens, path=flow["next"])

    def _show_problem(self, text: str) -> HttpResponse:
        return self.show(status=400, problem=text or _("The provider has not confirmed the sign-in. Try again."))

"""The logout that a client requests (OpenID Connect RP-Initiated Logout 1.0).

An ID token of the signed-in user shows that a client of this user asks; any other request needs the user's answer, so
that no page of another site can sign the user out. A form of another site comes without the cookie of the pages. It
is repeated as a page, with the cookie and without the ID token, so that it always leads to the question.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session
from accounts.pages.page import HostedPage
from authsvc import conf
from oauthserver.clients.client_summary import ClientSummary
from oauthserver.logout import logout_requests
from oauthserver.logout.logout_requests import LogoutRequest, LogoutRequestRefused
from oauthserver.pages.client_display import ShownClient
from tokens.sessions import revocation

_HIDDEN = ("client_id", "post_logout_redirect_uri", "state")


class LogoutPage(HostedPage):
    """GET and POST are requests of clients; the answer of the user goes to ConfirmedLogoutPage."""

    template = "pages/logout.html"
    title = _("Sign out")
    button = _("Sign out")
    text = _("Do you want to sign out of this browser?")
    form_action = ""
    """The form may lead to the client."""
    accepts_other_sites = True
    """Without an ID token of the user, the form of a client (§2) changes nothing."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not conf.current().oauth_server.enabled:
            raise Http404
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._respond_to_client(request)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._respond_to_client(request)

    def _respond_to_client(self, request: HttpRequest) -> HttpResponse:
        """Sign the user out if the ID token is that of the user; otherwise ask."""
        try:
            logout = logout_requests.parse(logout_requests.read(request))
        except LogoutRequestRefused as error:
            return self.show_refusal(error)
        current = browser_session.signed_in(request)
        if current is None and request.method != "POST":
            return self.finish(logout)
        if current is not None and logout.subject == str(current.user.id):
            return self.end_session(logout)
        values = {
            "client_id": str(logout.client.id) if logout.client else "",
            "post_logout_redirect_uri": logout.post_logout_redirect_uri,
            "state": logout.state,
        }
        hidden = {name: value for name, value in values.items() if value}
        # Not the URL of the request, which may have an ID token.
        own_path = f"{reverse('oauth_pages:logout')}?{urlencode(hidden)}"
        if current is None:
            return self.redirect(own_path)
        client = ShownClient(ClientSummary.of(logout.client)) if logout.client else None
        return self.show(client=client, hidden=hidden, own_path=own_path)

    def show_refusal(self, error: LogoutRequestRefused) -> HttpResponse:
        """No redirect, because the redirect URI is not valid (§3)."""
        self.request.META["authsvc.error_code"] = "validation_failed"
        return self.show(
            template="pages/logout_refused.html",
            status=400,
            title=_("This did not work"),
            text=_("The application has sent an invalid request to sign you out."),
            reason=str(error),
            own_path=reverse("oauth_pages:logout"),
        )

    def end_session(self, logout: LogoutRequest) -> HttpResponse:
        if current := browser_session.signed_in(self.request):
            revocation.sign_out_browser(current, caller=self.caller, at=self.at)
        browser_session.end(self.request)
        return self.finish(logout)

    def finish(self, logout: LogoutRequest) -> HttpResponse:
        response = self.redirect(logout.redirect or reverse("pages:signed_out"))
        response["Referrer-Policy"] = "no-referrer"
        return response


class ConfirmedLogoutPage(LogoutPage):
    """The answer of the user, protected against forgery."""

    accepts_other_sites = False
    form_class = forms.Form

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Reached from the language menu of an error page."""
        return self.redirect(reverse("oauth_pages:logout"))

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            logout = logout_requests.parse(lambda name: request.POST.get(name, "") if name in _HIDDEN else "")
        except LogoutRequestRefused as error:
            return self.show_refusal(error)
        return self.end_session(logout)

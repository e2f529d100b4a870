"""The base class of the OAuth server's pages: sign-in and second factor as a client requires them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.pages.page import HostedPage
from authsvc import conf
from oauthserver.pages.client_display import ShownClient

_REAUTHENTICATE = "reauthenticate"


class OAuthPage(HostedPage):
    """A page for signed-in users. It does not exist while the OAuth server is disabled."""

    requires_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not conf.current().oauth_server.enabled:
            raise Http404
        return super().dispatch(request, *args, **kwargs)

    def lead_to(self, required_action: str, *, client: ShownClient, path: str, login_hint: str = "") -> HttpResponse:
        """The step that a client requires before the user can approve; `path` is the page that follows it."""
        if required_action == _REAUTHENTICATE:
            return self.lead_to_sign_in(path, login_hint=login_hint, again=True)
        # A user with a second factor has verified it before any page, so that this one has none yet.
        return self.show(
            template="pages/second_factor_required.html",
            status=403,
            title=_("Second factor required"),
            client=client,
            path=path,
        )

    def lead_to_sign_in(self, path: str, *, login_hint: str = "", again: bool = False) -> HttpResponse:
        return self.redirect(self.sign_in_url(path, login_hint=login_hint, again=again))

    @staticmethod
    def sign_in_url(path: str, *, login_hint: str = "", again: bool = False) -> str:
        """The sign-in, followed by the page at `path`. With `again`, also for a browser that is signed in."""
        parameters = {
            "next": path,
            **({"login_hint": login_hint} if login_hint else {}),
            **({"prompt": "login"} if again else {}),
        }
        return f"{reverse('pages:sign_in')}?{urlencode(parameters)}"

    def permit_logo(self, page: HttpResponse, client: ShownClient) -> HttpResponse:
        """The page with a policy that permits the logo of the client."""
        if client.logo:
            page["Content-Security-Policy"] = self.content_policy(images=client.logo_origin)
        return page

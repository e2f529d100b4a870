"""The consent page: shows the request of a client to the signed-in user, who allows or denies it.

The first user who sees a request is bound to it. To use another account, that user releases the request, and signs in
to the other one like to any account: no parameter of the request changes the session of the browser.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts.pages import browser_session, destinations
from authsvc.errors import ValidationFailed
from oauthserver.authorization import authorizations
from oauthserver.authorization.authorizations import AuthorizationDetails
from oauthserver.errors import ReauthenticationRequired, SecondFactorRequired
from oauthserver.pages import client_display
from oauthserver.pages.client_display import ShownClient
from oauthserver.pages.page import OAuthPage

_SWITCH = "switch"
_SELECT_ACCOUNT = "select_account"


class ConsentPage(OAuthPage):
    template = "pages/consent.html"
    title = _("Allow access to your account?")

    def is_step_of_authorization(self) -> bool:
        return True

    def redirect_before_page(self) -> HttpResponse | None:
        if browser_session.signed_in(self.request) is None:
            hint = authorizations.find_login_hint(self._authorization_id, at=self.at)
            return self.lead_to_sign_in(self._path, login_hint=hint)
        return super().redirect_before_page()

    def get(self, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            shown = authorizations.show(self._authorization_id, signed_in=self.current, at=self.at)
        except ValidationFailed:
            return self._decided()
        if isinstance(shown, str):
            return self._to_client(shown)
        return self._show_request(shown)

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        action = self.request.POST.get("action", "")
        if action != _SWITCH and action not in authorizations.DECISIONS:
            raise BadRequest
        try:
            if action == _SWITCH:
                authorizations.release(self._authorization_id, signed_in=self.current, at=self.at)
                return self.lead_to_sign_in(self._path, again=True)
            redirect = authorizations.decide(
                self._authorization_id,
                approves=authorizations.DECISIONS[action],
                signed_in=self.current,
                caller=self.caller,
                at=self.at,
            )
        except (ReauthenticationRequired, SecondFactorRequired):
            # The page leads to the step that the session lacks.
            return self.redirect(self._path)
        except ValidationFailed:
            return self._decided()
        return self._to_client(redirect)

    @property
    def _authorization_id(self) -> str:
        return self.request.GET.get("authorization_id", "")

    @property
    def _path(self) -> str:
        return destinations.own_path(self.request)

    def _show_request(self, details: AuthorizationDetails) -> HttpResponse:
        client = ShownClient(details.client)
        if details.required_action:
            hint = details.login_hint or ""
            return self.lead_to(details.required_action, client=client, path=self._path, login_hint=hint)
        page = self.show(
            client=client,
            scopes=client_display.describe_access(details.scope, details.resource),
            target=client_display.target_of(details.redirect_uri),
            is_on_this_device=client_display.is_on_this_device(details.redirect_uri),
            selects_account=_SELECT_ACCOUNT in (details.prompt or "").split(),
        )
        return self.permit_logo(page, client)

    def _to_client(self, url: str) -> HttpResponse:
        response = self.redirect(url)
        response["Referrer-Policy"] = "no-referrer"
        return response

    def _decided(self) -> HttpResponse:
        return self.show(
            template="pages/error.html",
            status=400,
            title=_("Already answered"),
            text=_("You have answered this request already. Go back to the application and start again."),
        )

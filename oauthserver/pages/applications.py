"""The applications to which the user has given access, on the account pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from authsvc import conf
from oauthserver.grants import grants
from oauthserver.grants.grants import GrantedAccess
from oauthserver.pages import client_display
from oauthserver.pages.client_display import ShownClient
from oauthserver.pages.page import OAuthPage
from tokens.sessions.users import SignedInUser

ROUTE = "oauth_pages:applications"


class ApplicationsSection:
    """The entry in the navigation of the account."""

    route = ROUTE
    title = _("Applications")
    position = 90

    def is_available(self, current: SignedInUser) -> bool:
        return conf.current().oauth_server.enabled


class ApplicationForm(forms.Form):
    client_id = forms.CharField(max_length=64)


class ApplicationsPage(OAuthPage):
    template = "pages/applications.html"
    title = _("Connected applications")
    form_class = ApplicationForm

    def get_context(self) -> dict[str, Any]:
        return {"grants": [_describe(grant) for grant in grants.list_grants(self.current)]}

    def submit(self, form: ApplicationForm) -> HttpResponse:
        grants.revoke(form.cleaned_data["client_id"], signed_in=self.current, caller=self.caller, at=self.at)
        messages.success(self.request, gettext("The access is removed, and the application is signed out."))
        return self.redirect(reverse(ROUTE))


def _describe(grant: GrantedAccess) -> dict[str, Any]:
    return {
        "client": ShownClient(grant.client),
        "name_id": f"application-{grant.client.id}",
        "scopes": client_display.describe_access(grant.scopes, grant.resource),
        "granted_at": grant.granted_at,
    }

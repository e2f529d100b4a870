"""The page at which a user connects a device that has no browser (RFC 8628 §3.3).

The user types the code that the device shows, or follows a link with it, and then confirms client and scopes. An
attacker can send such a link to a user, so the page asks to compare the code, and never approves without a decision.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django import forms
from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from oauthserver.authorization import authorizations
from oauthserver.device import decisions
from oauthserver.device.decisions import DeviceRequest
from oauthserver.errors import DeviceCodeNotFound, ReauthenticationRequired, SecondFactorRequired
from oauthserver.pages import client_display
from oauthserver.pages.client_display import ShownClient
from oauthserver.pages.page import OAuthPage

ROUTE = "oauth_pages:device"
_FIND = "find"
_WRONG_CODE = _("This code is wrong or has expired. Compare it with the one on your device.")


class UserCodeForm(forms.Form):
    user_code = forms.CharField(
        label=_("Code"),
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false"}),
    )


class DevicePage(OAuthPage):
    template = "pages/device.html"
    title = _("Connect a device")
    text = _("Enter the code that your device shows.")
    form_class = UserCodeForm

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return UserCodeForm(data, initial={"user_code": self.request.GET.get("user_code", "")})

    def submit(self, form: UserCodeForm) -> HttpResponse:
        code, action = form.cleaned_data["user_code"], self.request.POST.get("action", _FIND)
        if action != _FIND and action not in authorizations.DECISIONS:
            raise BadRequest
        try:
            if action in authorizations.DECISIONS:
                return self._decide(code, approves=authorizations.DECISIONS[action])
            return self._show_request(
                decisions.find(code, signed_in=self.current, caller=self.caller, at=self.at), form=form
            )
        except DeviceCodeNotFound as error:
            form.add_error("user_code", _WRONG_CODE)
            return self.show(form, status=error.status)

    def _decide(self, code: str, *, approves: bool) -> HttpResponse:
        try:
            decisions.decide(code, approves=approves, signed_in=self.current, caller=self.caller, at=self.at)
        except (ReauthenticationRequired, SecondFactorRequired):
            # The page leads to the step that the session lacks.
            return self.redirect(_path(code))
        return self.redirect(reverse("oauth_pages:device_approved" if approves else "oauth_pages:device_denied"))

    def _show_request(self, request: DeviceRequest, *, form: UserCodeForm) -> HttpResponse:
        client = ShownClient(request.client)
        if request.required_action:
            return self.lead_to(request.required_action, client=client, path=_path(request.user_code))
        page = self.show(
            form,
            template="pages/device_request.html",
            title=_("Connect this device?"),
            client=client,
            scopes=client_display.describe_access(request.scope, request.resource),
            user_code=request.user_code,
            other_account=self.sign_in_url(_path(request.user_code), again=True),
        )
        return self.permit_logo(page, client)


class DeviceApprovedPage(OAuthPage):
    """Shown after approval; the user continues on the device."""

    http_method_names = ["get", "head"]
    template = "pages/device_done.html"
    title = _("Device connected")
    text = _("Your device signs in now. You can close this page.")


class DeviceDeniedPage(OAuthPage):
    http_method_names = ["get", "head"]
    template = "pages/device_done.html"
    title = _("Device not connected")
    text = _("The device gets no access. You can close this page.")


def _path(user_code: str) -> str:
    return f"{reverse(ROUTE)}?{urlencode({'user_code': user_code})}"

"""Routes of the OAuth server's pages."""

from __future__ import annotations

from authsvc.api.views import slash_optional
from oauthserver.authorization.authorization_requests import CONSENT_PATH
from oauthserver.pages.applications import ApplicationsPage
from oauthserver.pages.consent import ConsentPage
from oauthserver.pages.device import DeviceApprovedPage, DeviceDeniedPage, DevicePage
from oauthserver.pages.logout import ConfirmedLogoutPage, LogoutPage

app_name = "oauth_pages"
urlpatterns = [
    slash_optional(CONSENT_PATH, ConsentPage.as_view(), name="consent"),
    slash_optional("oauth/logout", LogoutPage.as_view(), name="logout"),
    slash_optional("oauth/logout/confirm", ConfirmedLogoutPage.as_view(), name="confirmed_logout"),
    slash_optional("oauth/device", DevicePage.as_view(), name="device"),
    slash_optional("oauth/device/approved", DeviceApprovedPage.as_view(), name="device_approved"),
    slash_optional("oauth/device/denied", DeviceDeniedPage.as_view(), name="device_denied"),
    slash_optional("account/applications", ApplicationsPage.as_view(), name="applications"),
]

"""The route table. Every path works with and without a trailing slash."""

from __future__ import annotations

from django.apps import apps
from django.urls import include, path
from django.views.generic import RedirectView

from authsvc import views
from authsvc.api.openapi import views as openapi
from authsvc.api.views import slash_optional
from tokens.api import disabled_features

# Django tries routes in order, so the most frequent ones come first.
urlpatterns = [
    path("", include("tokens.urls")),
    slash_optional("health", views.HealthView.as_view()),
    slash_optional("settings", views.SettingsView.as_view()),
    path("", include("oauthproviders.urls")),
    path("", include("accounts.urls")),
    path(
        "", include("oauthserver.urls" if apps.is_installed("oauthserver") else disabled_features.oauth_server_routes)
    ),
    path("", include("accounts.pages.urls")),
    path("", include("hooks.urls" if apps.is_installed("hooks") else [])),
    slash_optional("openapi.json", openapi.OpenapiView.as_view()),
    slash_optional("docs", openapi.DocsView.as_view()),
    path("docs/<slug:digest>/<str:name>", openapi.serve_asset),
    path("", include("authsvc.console.urls")),
    path("inbox", RedirectView.as_view(url="/inbox/")),
    path("inbox/", include("mailer.urls")),
    path("", include("tokens.api.disabled_features")),
    path("", views.start),
]

handler404 = "authsvc.views.not_found"
handler500 = "authsvc.views.failed"
handler400 = "authsvc.views.bad_request"

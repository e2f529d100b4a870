"""Routes of tokens."""

from __future__ import annotations

from authsvc.api.views import slash_optional
from tokens.api import views

urlpatterns = [
    slash_optional("token", views.TokenView.as_view()),
    slash_optional("logout", views.LogoutView.as_view()),
    slash_optional(".well-known/jwks.json", views.JwksView.as_view()),
    slash_optional(".well-known/openid-configuration", views.OpenidConfigurationView.as_view()),
]

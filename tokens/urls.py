"""Routes of tokens, without their trailing-slash twins."""

from __future__ import annotations

from authsvc.api.routes import both
from tokens.api import views

urlpatterns = [
    *both("token", views.TokenView.as_view()),
    *both("logout", views.LogoutView.as_view()),
    *both(".well-known/jwks.json", views.JwksView.as_view()),
    *both(".well-known/openid-configuration", views.OpenidConfigurationView.as_view()),
]

"""Routes of signing in through others."""

from __future__ import annotations

from authsvc.core.web.routes import both
from oauthproviders.views import custom_providers, sign_in

urlpatterns = [
    *both("authorize", sign_in.AuthorizeView.as_view()),
    *both("callback", sign_in.CallbackView.as_view()),
    *both("user/identities/authorize", sign_in.LinkIdentityView.as_view()),
    *both("admin/custom-providers", custom_providers.CustomProvidersView.as_view()),
    *both("admin/custom-providers/<str:identifier>", custom_providers.CustomProviderView.as_view()),
]

"""Routes of signing in through others."""

from __future__ import annotations

from authsvc.api.routes import both
from oauthproviders.custom import views as custom_views
from oauthproviders.flow import views as flow_views

urlpatterns = [
    *both("authorize", flow_views.AuthorizeView.as_view()),
    *both("callback", flow_views.CallbackView.as_view()),
    *both("user/identities/authorize", flow_views.LinkIdentityView.as_view()),
    *both("admin/custom-providers", custom_views.CustomProvidersView.as_view()),
    *both("admin/custom-providers/<str:identifier>", custom_views.CustomProviderView.as_view()),
]

"""Routes of sign-in with external providers."""

from __future__ import annotations

from authsvc.api.views import slash_optional
from oauthproviders.custom import views as custom_views
from oauthproviders.flow import views as flow_views

urlpatterns = [
    slash_optional("authorize", flow_views.AuthorizeView.as_view()),
    slash_optional("callback", flow_views.CallbackView.as_view()),
    slash_optional("user/identities/authorize", flow_views.LinkIdentityView.as_view()),
    slash_optional("admin/custom-providers", custom_views.CustomProvidersView.as_view()),
    slash_optional("admin/custom-providers/<str:identifier>", custom_views.CustomProviderView.as_view()),
]

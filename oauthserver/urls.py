"""Routes of the OAuth server."""

from __future__ import annotations

from django.urls import include, path

from authsvc.api.views import slash_optional
from oauthserver.authorization import views as authorization_views
from oauthserver.clients import views as client_views
from oauthserver.device import views as device_views
from oauthserver.discovery import views as discovery_views
from oauthserver.grants import views as grant_views
from oauthserver.token import views as token_views
from oauthserver.userinfo import views as userinfo_views

_CLIENT = "admin/oauth/clients/<str:client_id>"
_AUTHORIZATION = "oauth/authorizations/<str:authorization_id>"

urlpatterns = [
    slash_optional("oauth/userinfo", userinfo_views.UserInfoView.as_view()),
    slash_optional("oauth/token", token_views.OAuthTokenView.as_view()),
    slash_optional("oauth/revoke", token_views.RevocationView.as_view()),
    slash_optional("oauth/introspect", token_views.IntrospectionView.as_view()),
    slash_optional("oauth/device_authorization", device_views.DeviceAuthorizationView.as_view()),
    slash_optional("oauth/par", authorization_views.PushedRequestView.as_view()),
    slash_optional("oauth/authorize", authorization_views.OAuthAuthorizeView.as_view()),
    slash_optional(_AUTHORIZATION, authorization_views.AuthorizationView.as_view()),
    slash_optional(f"{_AUTHORIZATION}/consent", authorization_views.ConsentView.as_view()),
    slash_optional("oauth/clients/register", client_views.ClientRegistrationView.as_view()),
    slash_optional("user/oauth/grants", grant_views.GrantsView.as_view()),
    slash_optional("admin/oauth/clients", client_views.ClientsView.as_view()),
    slash_optional(_CLIENT, client_views.ClientView.as_view()),
    slash_optional(f"{_CLIENT}/regenerate_secret", client_views.ClientSecretView.as_view()),
    path("", include("oauthserver.pages.urls")),
    slash_optional(".well-known/oauth-authorization-server", discovery_views.AuthorizationServerMetadataView.as_view()),
    slash_optional(
        ".well-known/oauth-authorization-server/<path:issuer_path>", discovery_views.MetadataOfPathView.as_view()
    ),
    slash_optional(".well-known/openid-configuration/<path:issuer_path>", discovery_views.MetadataOfPathView.as_view()),
    slash_optional(".well-known/oauth-protected-resource", discovery_views.ProtectedResourceMetadataView.as_view()),
    slash_optional(
        ".well-known/oauth-protected-resource/oauth/userinfo", discovery_views.UserInfoMetadataView.as_view()
    ),
    slash_optional(
        ".well-known/oauth-protected-resource/<path:resource_path>", discovery_views.ResourceOfPathView.as_view()
    ),
]

"""Routes of features that this server does not have, with the errors that clients expect of a disabled feature.

An app that provides a feature has its routes before these and removes them from here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.urls import URLPattern

from authsvc.api.views import Endpoint, ServiceRequest, slash_optional
from tokens.api import errors
from tokens.api.authentication import AdminAuthentication, BearerAuthentication
from tokens.api.permissions import IsAdmin, IsSignedIn


class DisabledView(Endpoint):
    """Raises the documented error of the feature, after authentication."""

    is_described = False

    def get(self, request: ServiceRequest, **variables: Any) -> NoReturn:
        raise self.documented_errors[0]

    post = put = delete = get


class OAuthServerView(DisabledView):
    documented_errors = (errors.OAuthServerDisabled,)


class OAuthServerUserView(OAuthServerView):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)


class OAuthServerAdminView(OAuthServerView):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)


class SamlView(DisabledView):
    documented_errors = (errors.SamlDisabled,)


def _route(path: str, view: type[DisabledView], *methods: str) -> URLPattern:
    return slash_optional(path, view.as_view(http_method_names=list(methods)))


oauth_server_routes = [
    _route(".well-known/oauth-authorization-server", OAuthServerView, "get"),
    _route("oauth/authorize", OAuthServerView, "get"),
    _route("oauth/authorizations/<str:authorization_id>", OAuthServerView, "get"),
    _route("oauth/authorizations/<str:authorization_id>/consent", OAuthServerView, "post"),
    _route("oauth/clients/register", OAuthServerView, "post"),
    _route("oauth/token", OAuthServerView, "post"),
    _route("oauth/userinfo", OAuthServerView, "get"),
    _route("user/oauth/grants", OAuthServerUserView, "get", "delete"),
    _route("admin/oauth/clients", OAuthServerAdminView, "get", "post"),
    _route("admin/oauth/clients/<str:client_id>", OAuthServerAdminView, "get", "put", "delete"),
    _route("admin/oauth/clients/<str:client_id>/regenerate_secret", OAuthServerAdminView, "post"),
]
"""Without the app `oauthserver`."""

urlpatterns = [
    _route("sso", SamlView, "post"),
    _route("sso/saml/metadata", SamlView, "get"),
    _route("sso/saml/acs", SamlView, "post"),
]

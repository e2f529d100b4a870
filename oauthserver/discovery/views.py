"""/.well-known/oauth-authorization-server (RFC 8414 §3) and /.well-known/oauth-protected-resource (RFC 9728 §3)."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import urlsplit

from django.http import HttpResponse
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.views import ServiceRequest
from authsvc.errors import NotFound
from oauthserver import protected_resource
from oauthserver.discovery import metadata
from oauthserver.endpoints import OAuthEndpoint
from tokens.api import schemas
from tokens.jwt import signing_keys

_HEADERS = {"Cache-Control": "public, max-age=600"}


class ProtectedResource(TypedDict):
    """Metadata of this service as a protected resource (RFC 9728 §2)."""

    resource: str
    authorization_servers: list[str]
    jwks_uri: str
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class AuthorizationServerMetadataView(OAuthEndpoint):
    @document(responses={200: schemas.Discovery})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the metadata of the OAuth server."""
        return Response(metadata.build(), headers=_HEADERS)


class MetadataOfPathView(OAuthEndpoint):
    """The metadata for an issuer with a path, which clients insert behind the well-known path (RFC 8414 §3.1)."""

    @document(responses={200: schemas.Discovery}, errors=(NotFound,))
    def get(self, request: ServiceRequest, issuer_path: str) -> HttpResponse:
        """Publish the metadata of the OAuth server, for an issuer with this path."""
        if issuer_path.strip("/") != urlsplit(signing_keys.issuer()).path.strip("/"):
            raise NotFound
        return Response(metadata.build(), headers=_HEADERS)


class ProtectedResourceMetadataView(OAuthEndpoint):
    @document(responses={200: ProtectedResource})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the metadata of this service as a resource."""
        return Response(protected_resource.build(), headers=_HEADERS)


class UserInfoMetadataView(OAuthEndpoint):
    @document(responses={200: ProtectedResource})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the metadata of the UserInfo endpoint as a resource."""
        return Response(protected_resource.build(protected_resource.USERINFO), headers=_HEADERS)


class ResourceOfPathView(OAuthEndpoint):
    """The metadata of a resource below the path of this service (RFC 9728 §3.1)."""

    @document(responses={200: ProtectedResource}, errors=(NotFound,))
    def get(self, request: ServiceRequest, resource_path: str) -> HttpResponse:
        """Publish the metadata of this service as a resource, with the path of the issuer in the URL."""
        content = protected_resource.build(resource_path.strip("/"))
        if content is None:
            raise NotFound
        return Response(content, headers=_HEADERS)

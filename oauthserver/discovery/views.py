"""/.well-known/oauth-authorization-server (RFC 8414 §3)."""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.response import Response

from authsvc.api.openapi.document import document
from authsvc.api.views import ServiceRequest
from oauthserver.discovery import metadata
from oauthserver.endpoints import OAuthEndpoint
from tokens.api import schemas


class AuthorizationServerMetadataView(OAuthEndpoint):
    @document(responses={200: schemas.Discovery})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Publish the metadata of the OAuth server."""
        return Response(metadata.build(), headers={"Cache-Control": "public, max-age=600"})

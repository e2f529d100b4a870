"""/oauth/userinfo (OpenID Connect Core §5.3)."""

from __future__ import annotations

from typing import Any, ClassVar, NotRequired, TypedDict
from uuid import UUID

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.users.queries import get_user_record
from authsvc import conf
from authsvc.api.openapi.document import document
from authsvc.api.parsing import Body
from authsvc.api.views import ServiceRequest
from oauthserver import protected_resource, scopes
from oauthserver.clients import client_requests
from oauthserver.endpoints import OAuthEndpoint
from oauthserver.userinfo import claims
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn

_CHALLENGES = {401: "Bearer", 403: 'Bearer error="invalid_token",'}
"""Status of the response → beginning of the header `WWW-Authenticate`."""


class UserInfo(TypedDict):
    """Claims about the user, as far as the scopes of the session permit them."""

    sub: UUID
    email: NotRequired[str]
    email_verified: NotRequired[bool]
    """True if confirmed, else absent."""
    name: NotRequired[str]
    picture: NotRequired[str]
    preferred_username: NotRequired[str]
    updated_at: NotRequired[int]
    """Unix seconds."""
    user_metadata: NotRequired[dict[str, Any]]
    phone: NotRequired[str]
    phone_verified: NotRequired[bool]
    phone_number: NotRequired[str]
    phone_number_verified: NotRequired[bool]


class UserInfoForm(Body, frozen=True):
    """The members of a request without the header `Authorization`."""

    example: ClassVar[tuple[str, ...]] = ("access_token",)
    access_token: str | None = None


class HeaderOrFormAuthentication(BearerAuthentication):
    """Bearer authentication whose token may also be in the form of a POST request (RFC 6750 §2.2)."""

    def find_token(self, request: Request) -> str | None:
        if request.method != "POST" or "HTTP_AUTHORIZATION" in request.META:
            return super().find_token(request)
        return client_requests.parse_form(request._request).get("access_token") or None


class UserInfoView(OAuthEndpoint):
    authentication_classes = (HeaderOrFormAuthentication,)
    permission_classes = (IsSignedIn,)
    client_methods = impersonated_methods = frozenset({"get", "post"})

    def handle_exception(self, exc: Exception) -> Any:
        """Name the metadata of this resource in refusals of the token (RFC 6750 §3, RFC 9728 §5.1)."""
        response = super().handle_exception(exc)
        if response.status_code in _CHALLENGES and conf.current().oauth_server.enabled:
            url = protected_resource.metadata_url(protected_resource.USERINFO)
            response["WWW-Authenticate"] = f'{_CHALLENGES[response.status_code]} resource_metadata="{url}"'
        return response

    @document(responses={200: UserInfo})
    def get(self, request: ServiceRequest) -> HttpResponse:
        """Return claims about the user, as far as the scopes of the session permit them."""
        signed_in = authentication.get_signed_in_user(request)
        session = signed_in.session
        granted = scopes.parse(session.scopes or "") if session and session.oauth_client_id else []
        return Response(claims.userinfo(get_user_record(signed_in), granted))

    @document(form=UserInfoForm, responses={200: UserInfo})
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Do the same as GET. The access token may be in the form instead of the header (RFC 6750 §2.2)."""
        return self.get(request)

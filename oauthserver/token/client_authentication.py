"""Authenticates clients at the token endpoint (RFC 6749 §2.3)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote
from uuid import UUID

from django.http import HttpRequest

from authsvc.api.parsing import Body
from authsvc.security import crypto
from oauthserver.clients import clients
from oauthserver.errors import InvalidClient
from oauthserver.models import AuthMethod, OAuthClient
from oauthserver.token import token_requests
from oauthserver.token.token_requests import BodyUnreadable, TokenForm, TokenRequest

_BASIC = "basic "


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Presented credentials and the method by which they came."""

    client_id: str
    secret: str = field(repr=False)
    method: AuthMethod


class AuthenticatedRequest(NamedTuple):
    """The client of a token request, and its parameters; None for what is missing or unreadable."""

    client: OAuthClient | None
    parameters: TokenRequest | None


def uses_basic(request: HttpRequest) -> bool:
    return str(request.META.get("HTTP_AUTHORIZATION", "")).lower().startswith(_BASIC)


def authenticate(request: HttpRequest, *, form: type[Body] = TokenForm) -> AuthenticatedRequest:
    """Authenticates the client of a request. One statement. Raises InvalidClient.

    `form` has the members of a JSON body.
    No client: HTTP Basic authentication with an empty id. No parameters: authenticated with HTTP Basic authentication,
    and the body is unreadable.
    """
    if uses_basic(request):
        client = _verify_credentials(_read_basic(request.META["HTTP_AUTHORIZATION"]))
        try:
            return AuthenticatedRequest(client, token_requests.parse(request, form=form))
        except BodyUnreadable:
            return AuthenticatedRequest(client, None)
    try:
        parameters = token_requests.parse(request, form=form)
    except BodyUnreadable:
        raise InvalidClient("Invalid client credentials: failed to parse JSON body") from None
    client_id, secret = parameters.get("client_id"), parameters.get("client_secret")
    if not client_id:
        raise InvalidClient("Invalid client credentials: client_id is required")
    method = AuthMethod.POST if secret else AuthMethod.NONE
    return AuthenticatedRequest(_verify_credentials(ClientCredentials(client_id, secret, method)), parameters)


def _read_basic(header: str) -> ClientCredentials:
    """RFC 7617 §2; the parts may be form-encoded (RFC 6749 §2.3.1)."""
    try:
        decoded = base64.b64decode(header[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidClient("Invalid client credentials: invalid basic auth encoding") from None
    client_id, colon, secret = decoded.partition(":")
    if not colon:
        raise InvalidClient("Invalid client credentials: invalid basic auth format")
    return ClientCredentials(unquote(client_id), unquote(secret), AuthMethod.BASIC)


def _verify_credentials(credentials: ClientCredentials) -> OAuthClient | None:
    if not credentials.client_id:
        return None
    try:
        client_id = UUID(credentials.client_id)
    except ValueError:
        raise InvalidClient("Invalid client_id format") from None
    client = clients.find_existing(client_id)
    if client is None:
        raise InvalidClient
    if credentials.method != client.token_endpoint_auth_method:
        raise InvalidClient(
            f"invalid authentication method: client is registered for '{client.token_endpoint_auth_method}'"
            f" but '{credentials.method.value}' was used"
        )
    if client.is_public:
        return client
    if not credentials.secret:
        raise InvalidClient("confidential clients must provide client_secret")
    if not crypto.constant_time_equal(clients.hash_secret(credentials.secret), client.client_secret_hash or ""):
        raise InvalidClient("invalid client credentials")
    return client

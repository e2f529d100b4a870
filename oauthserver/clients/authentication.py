"""Authenticates clients in their requests (RFC 6749 §2.3)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote
from uuid import UUID

from django.http import HttpRequest

from authsvc.api.parsing import Body
from authsvc.security import crypto
from oauthserver.clients import assertions, client_requests, clients
from oauthserver.clients.client_requests import BodyUnreadable, ClientRequest
from oauthserver.errors import ClientRequired, InvalidClient, TokenRequestInvalid
from oauthserver.models import AuthMethod, OAuthClient

_BASIC = "basic "
_TWO_METHODS = "Invalid client credentials: more than one authentication method"

ClientLookup = Callable[[UUID, ClientRequest], OAuthClient | None]
"""Finds a client that is not deleted."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Presented credentials and the method by which they came."""

    client_id: str
    secret: str = field(repr=False)
    method: AuthMethod
    assertion: str = field(default="", repr=False)


class AuthenticatedRequest(NamedTuple):
    """The client of a request, and its parameters; None for what is missing or unreadable."""

    client: OAuthClient | None
    parameters: ClientRequest | None

    def require_client(self) -> OAuthClient:
        """The client. Raises ClientRequired."""
        if self.client is None:
            raise ClientRequired
        return self.client

    def require_parameters(self) -> ClientRequest:
        """The parameters. Raises TokenRequestInvalid for an unreadable body or a repeated parameter."""
        if self.parameters is None:
            raise TokenRequestInvalid("Invalid JSON body")
        self.parameters.refuse_repetition()
        return self.parameters

    def require(self) -> tuple[OAuthClient, ClientRequest]:
        """The client and the parameters. Raises TokenRequestInvalid, and ClientRequired."""
        if self.parameters is None:
            raise TokenRequestInvalid("Invalid JSON body")
        return self.require_client(), self.require_parameters()


def uses_basic(request: HttpRequest) -> bool:
    return str(request.META.get("HTTP_AUTHORIZATION", "")).lower().startswith(_BASIC)


def _find(client_id: UUID, _parameters: ClientRequest) -> OAuthClient | None:
    return clients.find_existing(client_id)


def authenticate(
    request: HttpRequest, form: type[Body], *, at: datetime, find: ClientLookup = _find
) -> AuthenticatedRequest:
    """Authenticate the client of a request. One statement, and one for an assertion. Raises InvalidClient.

    No client: HTTP Basic authentication with an empty id. No parameters: authenticated with HTTP Basic authentication,
    and the body is unreadable.
    """
    parameters: ClientRequest | None
    try:
        parameters = client_requests.parse(request, form)
    except BodyUnreadable:
        parameters = None
    if uses_basic(request):
        if parameters is not None and parameters.get("client_assertion"):
            raise InvalidClient(_TWO_METHODS)
        credentials = _read_basic(request.META["HTTP_AUTHORIZATION"])
    elif parameters is None:
        raise InvalidClient("Invalid client credentials: failed to parse JSON body")
    else:
        credentials = _read_parameters(parameters)
    client = _verify_credentials(
        credentials, at=at, find=lambda client_id: find(client_id, parameters or ClientRequest())
    )
    return AuthenticatedRequest(client, parameters)


def _read_parameters(parameters: ClientRequest) -> ClientCredentials:
    client_id, secret = parameters.get("client_id"), parameters.get("client_secret")
    assertion = parameters.get("client_assertion")
    if assertion:
        if secret:
            raise InvalidClient(_TWO_METHODS)
        if parameters.get("client_assertion_type") != assertions.ASSERTION_TYPE:
            raise InvalidClient("Invalid client credentials: unsupported client_assertion_type")
        client_id = client_id or assertions.claimed_client_id(assertion)
        return ClientCredentials(client_id, "", AuthMethod.PRIVATE_KEY_JWT, assertion)
    if not client_id:
        raise InvalidClient("Invalid client credentials: client_id is required")
    return ClientCredentials(client_id, secret, AuthMethod.POST if secret else AuthMethod.NONE)


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


def _verify_credentials(
    credentials: ClientCredentials, *, at: datetime, find: Callable[[UUID], OAuthClient | None]
) -> OAuthClient | None:
    """The client whose credentials these are; None for an empty id. Raises InvalidClient."""
    if not credentials.client_id:
        return None
    try:
        client_id = UUID(credentials.client_id)
    except ValueError:
        raise InvalidClient("Invalid client_id format") from None
    client = find(client_id)
    if client is None:
        raise InvalidClient
    if credentials.method != client.token_endpoint_auth_method:
        raise InvalidClient(
            f"invalid authentication method: client is registered for '{client.token_endpoint_auth_method}'"
            f" but '{credentials.method.value}' was used"
        )
    if client.is_public:
        return client
    if credentials.method == AuthMethod.PRIVATE_KEY_JWT:
        assertions.verify(credentials.assertion, client=client, at=at)
        return client
    if not credentials.secret:
        raise InvalidClient("confidential clients must provide client_secret")
    if not crypto.constant_time_equal(clients.hash_secret(credentials.secret), client.client_secret_hash or ""):
        raise InvalidClient("invalid client credentials")
    return client

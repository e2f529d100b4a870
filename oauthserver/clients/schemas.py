"""Clients in responses: their declared schemas and their JSON."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import orjson

from accounts.schemas import Moment
from authsvc.api.renderers import rfc3339
from oauthserver.clients.client_metadata import CLIENT_CREDENTIALS
from oauthserver.clients.clients import RegisteredClient
from oauthserver.models import OAuthClient

_Method = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]


_OPTIONAL = (
    "client_uri", "logo_uri", "token_endpoint_auth_signing_alg", "jwks_uri", "resource",
    "require_pushed_authorization_requests", "backchannel_logout_uri", "backchannel_logout_session_required",
)  # fmt: skip


class ClientInformation(TypedDict):
    """A client of the OAuth server, without its secret."""

    client_id: UUID
    client_type: Literal["public", "confidential"]
    redirect_uris: list[str]
    token_endpoint_auth_method: _Method
    grant_types: list[str]
    response_types: list[str]
    client_name: str
    """Empty without a name."""
    client_uri: NotRequired[str]
    logo_uri: NotRequired[str]
    token_endpoint_auth_signing_alg: NotRequired[str]
    jwks: NotRequired[dict[str, Any]]
    jwks_uri: NotRequired[str]
    scope: NotRequired[str]
    """Scopes of the client itself, with the grant `client_credentials`."""
    resource: NotRequired[str]
    require_pushed_authorization_requests: NotRequired[bool]
    """Absent if false."""
    post_logout_redirect_uris: NotRequired[list[str]]
    backchannel_logout_uri: NotRequired[str]
    backchannel_logout_session_required: NotRequired[bool]
    """Absent if false."""
    registration_type: Literal["manual", "dynamic"]
    created_at: Moment
    updated_at: Moment


class ClientWithSecret(ClientInformation):
    """A client with its new secret."""

    client_secret: NotRequired[str]
    """Only of a confidential client; it is never shown again."""


class RegisteredClientInformation(ClientWithSecret):
    """A client that has registered itself (RFC 7591 §3.2.1)."""

    client_id_issued_at: int
    """Unix seconds."""
    client_secret_expires_at: NotRequired[int]
    """0: the secret does not expire."""


class ClientList(TypedDict):
    """Clients, newest first."""

    clients: list[ClientInformation]


def client_json(client: OAuthClient) -> dict[str, Any]:
    optional = {name: value for name in _OPTIONAL if (value := getattr(client, name))}
    if client.post_logout_redirect_uris:
        optional["post_logout_redirect_uris"] = client.post_logout_redirect_uri_list
    if client.jwks:
        optional["jwks"] = orjson.Fragment(client.jwks)
    if CLIENT_CREDENTIALS in client.grant_type_list and client.scope:
        optional["scope"] = client.scope
    return {
        "client_id": str(client.id),
        "client_type": client.client_type,
        "redirect_uris": client.redirect_uri_list,
        "token_endpoint_auth_method": client.token_endpoint_auth_method,
        "grant_types": client.grant_type_list,
        "response_types": ["code"],
        "client_name": client.client_name or "",
        **optional,
        "registration_type": client.registration_type,
        "created_at": rfc3339(client.created_at),
        "updated_at": rfc3339(client.updated_at),
    }


def registered_client_json(registered: RegisteredClient) -> dict[str, Any]:
    """The client with its secret, if it has one."""
    content = client_json(registered.client)
    return {**content, "client_secret": registered.secret} if registered.secret else content

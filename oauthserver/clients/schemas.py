"""Clients in responses: their declared schemas and their JSON."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import Moment
from authsvc.api.renderers import rfc3339
from oauthserver.clients.clients import RegisteredClient
from oauthserver.models import OAuthClient

_Method = Literal["none", "client_secret_basic", "client_secret_post"]


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
    addresses = {name: value for name in ("client_uri", "logo_uri") if (value := getattr(client, name))}
    return {
        "client_id": str(client.id),
        "client_type": client.client_type,
        "redirect_uris": client.redirect_uri_list,
        "token_endpoint_auth_method": client.token_endpoint_auth_method,
        "grant_types": client.grant_type_list,
        "response_types": ["code"],
        "client_name": client.client_name or "",
        **addresses,
        "registration_type": client.registration_type,
        "created_at": rfc3339(client.created_at),
        "updated_at": rfc3339(client.updated_at),
    }


def registered_client_json(registered: RegisteredClient) -> dict[str, Any]:
    """The client with its secret, if it has one."""
    content = client_json(registered.client)
    return {**content, "client_secret": registered.secret} if registered.secret else content

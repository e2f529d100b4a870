"""Registers, changes and deletes clients."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.db import transaction

from authsvc import audit, events
from authsvc.api import pagination
from authsvc.api.pagination import PageRequest
from authsvc.caller import Caller
from authsvc.events import EventType
from authsvc.security import crypto
from oauthserver import scopes
from oauthserver.clients import client_keys, client_metadata
from oauthserver.clients.client_metadata import ClientRegistration, ClientUpdate
from oauthserver.errors import ClientIdMalformed, ClientMetadataInvalid, OAuthClientNotFound
from oauthserver.models import (
    AuthMethod,
    AuthorizationStatus,
    ClientType,
    DeviceAuthorization,
    OAuthAuthorization,
    OAuthClient,
    RegistrationType,
)  # fmt: skip

_AUDITED = (
    "redirect_uris", "grant_types", "client_name", "client_uri", "logo_uri", "client_type",
    "token_endpoint_auth_method", "token_endpoint_auth_signing_alg", "jwks", "jwks_uri", "scope", "resource",
    "require_pushed_authorization_requests", "post_logout_redirect_uris", "backchannel_logout_uri",
    "backchannel_logout_session_required",
)  # fmt: skip
_FLAGS = frozenset({"require_pushed_authorization_requests", "backchannel_logout_session_required"})
_REQUIRED = frozenset({"redirect_uris", "grant_types"})
"""Columns that are empty and not NULL without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredClient:
    """A client and its new secret, which is known only now; empty for a client without one."""

    client: OAuthClient
    secret: str = field(default="", repr=False)


def hash_secret(secret: str) -> str:
    """The stored digest: SHA-256 in base64url. A secret has 256 random bits, so that it needs no slow hash."""
    return crypto.base64url_encode(hashlib.sha256(secret.encode(errors="surrogatepass")).digest())


def list_clients(page: PageRequest) -> tuple[list[OAuthClient], int]:
    """The clients of a page, newest first, and the number of all."""
    rows = OAuthClient.objects.filter(deleted_at__isnull=True).order_by("-created_at", "-id")
    found = list(rows[page.offset : page.offset + page.limit])
    total = pagination.total_if_last(page, shown=len(found))
    return found, rows.count() if total is None else total


def find(client_id: str) -> OAuthClient:
    """The client with this id. Raises ClientIdMalformed, OAuthClientNotFound. One statement."""
    client = find_existing(parse_id(client_id))
    if client is None:
        raise OAuthClientNotFound
    return client


def find_existing(client_id: UUID) -> OAuthClient | None:
    """The client, unless it is unknown or deleted. One statement."""
    return OAuthClient.objects.filter(id=client_id, deleted_at__isnull=True).first()


def parse_id(text: str) -> UUID:
    """The id in a path. Raises ClientIdMalformed."""
    try:
        return UUID(text)
    except ValueError:
        raise ClientIdMalformed from None


def register(
    metadata: ClientRegistration,
    *,
    registration_type: RegistrationType,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> RegisteredClient:
    """Register a client. Raises ClientMetadataInvalid.

    A client that registers itself gets neither the grant `client_credentials` nor a resource.
    """
    grant_types: tuple[str, ...] = client_metadata.GRANT_TYPES
    if registration_type == RegistrationType.DYNAMIC:
        grant_types = client_metadata.DYNAMIC_GRANT_TYPES
        metadata = msgspec.structs.replace(metadata, scope=None, resource=None)
    client_metadata.check_registration(metadata, grant_types=grant_types)
    method = metadata.token_endpoint_auth_method
    client_type = metadata.client_type or (client_metadata.type_of(method) if method else ClientType.CONFIDENTIAL.value)
    is_public = client_type == ClientType.PUBLIC
    secret = "" if is_public or method == AuthMethod.PRIVATE_KEY_JWT else crypto.generate_key()
    client = OAuthClient(
        id=uuid4(),
        client_secret_hash=hash_secret(secret) if secret else "",
        registration_type=registration_type.value,
        redirect_uris=client_metadata.join(metadata.redirect_uris or []),
        grant_types=client_metadata.join(metadata.grant_types or client_metadata.DEFAULT_GRANT_TYPES),
        client_name=metadata.client_name or None,
        client_uri=metadata.client_uri or None,
        logo_uri=metadata.logo_uri or None,
        client_type=client_type,
        token_endpoint_auth_method=method or (AuthMethod.NONE if is_public else AuthMethod.BASIC).value,
        token_endpoint_auth_signing_alg=metadata.token_endpoint_auth_signing_alg or None,
        jwks=client_keys.to_column(metadata.jwks) if metadata.jwks else None,
        jwks_uri=metadata.jwks_uri or None,
        scope=scopes.normalize(metadata.scope or "") or None,
        resource=metadata.resource or None,
        require_pushed_authorization_requests=metadata.require_pushed_authorization_requests or False,
        post_logout_redirect_uris=client_metadata.join(metadata.post_logout_redirect_uris or []) or None,
        backchannel_logout_uri=metadata.backchannel_logout_uri or None,
        backchannel_logout_session_required=metadata.backchannel_logout_session_required or False,
        created_at=at,
        updated_at=at,
    )
    with transaction.atomic(durable=True):
        client.save(force_insert=True)
        traits = _traits(client, before={}, after=_audited_values(client))
        audit.record(audit.Action.OAUTH_CLIENT_CREATED, actor=actor, caller=caller, at=at, traits=traits)
        events.record(EventType.OAUTH_CLIENT_CREATED, data=lambda: {"client": _describe(client)}, at=at)
    return RegisteredClient(client=client, secret=secret)


def update(
    client_id: str, changes: ClientUpdate, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> OAuthClient:
    """Change the given values. Raises ClientIdMalformed, OAuthClientNotFound or ClientMetadataInvalid."""
    parsed_id = parse_id(client_id)
    with transaction.atomic(durable=True):
        client = _lock(parsed_id)
        client_metadata.check_update(changes, client=client)
        before = _audited_values(client)
        values = {name: value or None for name, value in changes.values().items()}
        values |= {name: value or "" for name, value in values.items() if name in _REQUIRED}
        values |= {name: bool(value) for name, value in values.items() if name in _FLAGS}
        if values.get("token_endpoint_auth_method") == AuthMethod.PRIVATE_KEY_JWT:
            values["client_secret_hash"] = ""
        for name, value in values.items():
            setattr(client, name, value)
        client.updated_at = at
        client.save(update_fields=[*values, "updated_at"])
        traits = _traits(client, before=before, after=_audited_values(client))
        audit.record(audit.Action.OAUTH_CLIENT_UPDATED, actor=actor, caller=caller, at=at, traits=traits)
        events.record(EventType.OAUTH_CLIENT_UPDATED, data=lambda: {"client": _describe(client)}, at=at)
    return client


def regenerate_secret(client_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> RegisteredClient:
    """Replace the secret; the former one is invalid at once.

    Raises ClientIdMalformed, OAuthClientNotFound, and ClientMetadataInvalid for a client that uses no secret.
    """
    parsed_id = parse_id(client_id)
    with transaction.atomic(durable=True):
        client = _lock(parsed_id)
        if client.is_public:
            raise ClientMetadataInvalid("Cannot regenerate secret for public client")
        if client.token_endpoint_auth_method == AuthMethod.PRIVATE_KEY_JWT:
            raise ClientMetadataInvalid("Cannot regenerate secret for a client that uses private_key_jwt")
        secret = crypto.generate_key()
        client.client_secret_hash, client.updated_at = hash_secret(secret), at
        client.save(update_fields=["client_secret_hash", "updated_at"])
        traits = _traits(client, before={}, after={})
        audit.record(audit.Action.OAUTH_CLIENT_SECRET_REGENERATED, actor=actor, caller=caller, at=at, traits=traits)
        events.record(EventType.OAUTH_CLIENT_UPDATED, data=lambda: {"client": _describe(client)}, at=at)
    return RegisteredClient(client=client, secret=secret)


def delete(client_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> None:
    """Delete a client with its open authorization requests. Its sessions can no longer be refreshed.

    Raises ClientIdMalformed, OAuthClientNotFound.
    """
    parsed_id = parse_id(client_id)
    with transaction.atomic(durable=True):
        client = _lock(parsed_id)
        OAuthClient.objects.filter(id=client.id).update(deleted_at=at, updated_at=at)
        open_requests = OAuthAuthorization.objects.filter(client_id=client.id)
        open_requests.filter(status__in=[AuthorizationStatus.PENDING, AuthorizationStatus.APPROVED])._raw_delete(
            "default"
        )
        DeviceAuthorization.objects.filter(client_id=client.id)._raw_delete("default")
        traits = _traits(client, before=_audited_values(client), after={})
        audit.record(audit.Action.OAUTH_CLIENT_DELETED, actor=actor, caller=caller, at=at, traits=traits)
        events.record(EventType.OAUTH_CLIENT_DELETED, data=lambda: {"client": _describe(client)}, at=at)


def delete_unused(client_ids: Sequence[UUID], *, at: datetime) -> int:
    """Delete the rows of clients that no user has ever used. Joins the caller's transaction."""
    unused = OAuthClient.objects.filter(id__in=client_ids)
    for client in unused:
        if client.deleted_at is None:
            events.record(EventType.OAUTH_CLIENT_DELETED, data={"client": _describe(client)}, at=at)
    unused._raw_delete("default")
    return len(client_ids)


def _describe(client: OAuthClient) -> dict[str, Any]:
    return {"client_id": str(client.id), **_audited_values(client)}


def _lock(client_id: UUID) -> OAuthClient:
    # Rows that refer to the client can be inserted meanwhile: their transactions lock the request before the client.
    rows = OAuthClient.objects.select_for_update(no_key=True)
    client = rows.filter(id=client_id, deleted_at__isnull=True).first()
    if client is None:
        raise OAuthClientNotFound
    return client


def _audited_values(client: OAuthClient) -> dict[str, Any]:
    return {name: getattr(client, name) for name in _AUDITED}


def _traits(client: OAuthClient, *, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    traits: dict[str, Any] = {"client_id": str(client.id), "client_name": client.client_name or ""}
    if changes := audit.describe_changes(before, after):
        traits["changes"] = changes
    return traits

"""Lists, creates, updates and deletes custom providers."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec
from django.db import IntegrityError, transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, fetch_rows, namespaced
from authsvc.errors import ApiError, ValidationFailed
from authsvc.security import encryption
from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.custom import definitions, provider, safe_urls
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import openid_connect

MAX_COUNTED_USERS = 10_000
_REQUIRED_DISCOVERY = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")


class CustomProvidersDisabled(ApiError):
    status = 404
    error_code = "feature_disabled"
    message = "Custom OAuth providers are disabled"


class CustomProviderNotFound(ApiError):
    status = 404
    error_code = "custom_provider_not_found"
    message = "Custom OAuth provider not found"


class TooManyCustomProviders(ApiError):
    status = 400
    error_code = "over_custom_provider_quota"
    message = "Maximum number of custom OAuth/OIDC providers reached"


class CustomProviderExists(ApiError):
    status = 400
    error_code = "conflict"
    message = "A custom OAuth provider with this identifier already exists"


def check_enabled() -> None:
    """Raises CustomProvidersDisabled."""
    if not conf.current().custom_providers.enabled:
        raise CustomProvidersDisabled


def list_providers(*, provider_type: str) -> list[CustomProvider]:
    """All providers, or those of one type, newest first. Raises ValidationFailed for an unknown type."""
    providers = CustomProvider.objects.order_by("-created_at", "-id")
    if not provider_type:
        return list(providers)
    if provider_type not in ProviderType.values:
        raise ValidationFailed("type must be either 'oauth2' or 'oidc'")
    return list(providers.filter(provider_type=provider_type))


def find(identifier: str) -> CustomProvider:
    """The provider with this identifier. Raises ValidationFailed, CustomProviderNotFound."""
    definitions.check_identifier(identifier)
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise CustomProviderNotFound
    return row


@deadline.shared()
def create(
    definition: ProviderDefinition, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> CustomProvider:
    """Create a provider. Raises ValidationFailed, TooManyCustomProviders, CustomProviderExists."""
    definitions.check_complete(definition)
    _check_quota()
    _check_urls(definition)
    row = CustomProvider(id=uuid4(), created_at=at, updated_at=at)
    if CustomProvider.objects.filter(identifier=definition.identifier).exists():
        raise CustomProviderExists
    _fill(row, definition.values())
    if row.provider_type == ProviderType.OIDC:
        _discover(row, at=at)
    try:
        with transaction.atomic(durable=True):
            # Serialises concurrent creations for the quota; readers are not blocked.
            fetch_rows(f"LOCK TABLE {namespaced('custom_oauth_providers')} IN SHARE ROW EXCLUSIVE MODE", ())
            _check_quota()
            row.save(force_insert=True)
            traits = _traits(row, before={}, after=_audited_values(row))
            audit.record(audit.Action.CUSTOM_PROVIDER_CREATED, actor=actor, caller=caller, at=at, traits=traits)
    except IntegrityError:
        raise CustomProviderExists from None  # created concurrently
    return row


@deadline.shared()
def update(
    identifier: str,
    changes: ProviderDefinition,
    *,
    resets_discovery_url: bool = False,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> CustomProvider:
    """Update the given values, except the identifier and the type.

    `resets_discovery_url` removes the URL, so that the standard one of the issuer applies. Raises ValidationFailed,
    CustomProviderNotFound.
    """
    row = find(identifier)
    before = _audited_values(row)
    definitions.check_values(changes)
    _check_urls(changes)
    values = _changed_values(changes, resets_discovery_url=resets_discovery_url)
    _fill(row, values)
    row.updated_at = at
    changed = [*values, "updated_at"]
    has_new_location = bool(changes.issuer or changes.discovery_url or resets_discovery_url)
    if row.provider_type == ProviderType.OIDC and has_new_location:
        _discover(row, at=at)
        changed += ["cached_discovery", "discovery_cached_at"]
    with transaction.atomic(durable=True):
        if not CustomProvider.objects.filter(id=row.id).update(**{name: getattr(row, name) for name in changed}):
            raise CustomProviderNotFound
        traits = _traits(row, before=before, after=_audited_values(row))
        audit.record(audit.Action.CUSTOM_PROVIDER_UPDATED, actor=actor, caller=caller, at=at, traits=traits)
    return row


def delete(identifier: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> None:
    """Delete a provider. Raises ValidationFailed, CustomProviderNotFound."""
    row = find(identifier)
    with transaction.atomic(durable=True):
        deleted, _ = CustomProvider.objects.filter(id=row.id).delete()
        if not deleted:
            raise CustomProviderNotFound
        traits = _traits(row, before=_audited_values(row), after={})
        audit.record(audit.Action.CUSTOM_PROVIDER_DELETED, actor=actor, caller=caller, at=at, traits=traits)


def preview(
    definition: ProviderDefinition, *, row: CustomProvider | None, resets_discovery_url: bool = False, at: datetime
) -> CustomProvider:
    """The provider that `create`, or `update` of `row`, would store; sends no request. Raises ValidationFailed."""
    if row is None:
        definitions.check_complete(definition)
        previewed = CustomProvider(id=uuid4(), created_at=at, updated_at=at)
        _fill(previewed, definition.values())
        return previewed
    definitions.check_values(definition)
    previewed = copy.copy(row)
    previewed.updated_at = at
    _fill(previewed, _changed_values(definition, resets_discovery_url=resets_discovery_url))
    return previewed


def count_linked_users(identifier: str) -> int:
    """The number of users with an identity of a custom provider, counted up to MAX_COUNTED_USERS. One statement."""
    sql = f"""
        SELECT count(*) FROM (
            SELECT DISTINCT user_id FROM {namespaced("identities")}
            WHERE provider = %s AND provider LIKE 'custom:%%' LIMIT {MAX_COUNTED_USERS}
        ) linked
    """  # noqa: S608  (own table name); the condition is that of the index
    row = fetch_row(sql, (identifier,))
    return int(row[0]) if row else 0


def _changed_values(changes: ProviderDefinition, *, resets_discovery_url: bool) -> dict[str, Any]:
    values = {name: value for name, value in changes.values().items() if name not in ("provider_type", "identifier")}
    return {**values, "discovery_url": None} if resets_discovery_url else values


def _traits(row: CustomProvider, *, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changes = audit.describe_changes(before, after, secret=("client_secret",))
    return {"identifier": row.identifier, "provider_type": row.provider_type, "changes": changes}


def _audited_values(row: CustomProvider) -> dict[str, Any]:
    """The values that administrators can change."""
    return {name: getattr(row, name) for name in ProviderDefinition.__struct_fields__}


def _check_quota() -> None:
    limit = conf.current().custom_providers.max_providers
    if limit and CustomProvider.objects.count() >= limit:
        raise TooManyCustomProviders


def _check_urls(definition: ProviderDefinition) -> None:
    for url in definition.urls:
        try:
            safe_urls.check(url, private_allowed=not provider.is_public_only())
        except safe_urls.UnsafeUrl as reason:
            raise ValidationFailed(str(reason)) from None


def _fill(row: CustomProvider, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    if "client_secret" in values:
        row.client_secret = encryption.encrypt(values["client_secret"], bound_to=row.id)
    row.scopes = provider.scopes_of(row.provider_type, row.scopes)


def _discover(row: CustomProvider, *, at: datetime) -> None:
    """Read the discovery document. Raises ValidationFailed when it cannot be read or is incomplete."""
    issuer = provider.issuer_of(row)
    try:
        document = openid_connect.fetch(issuer)
    except InvalidProviderResponse as reason:
        raise ValidationFailed(f'OIDC discovery from "{issuer.discovery_url}" failed: {reason}') from None
    missing = [name for name in _REQUIRED_DISCOVERY if not getattr(document, name)]
    if missing:
        raise ValidationFailed(f"OIDC discovery document is missing required fields: {', '.join(missing)}")
    row.cached_discovery = {
        key: value for key, value in msgspec.to_builtins(document).items() if value not in (None, "")
    }
    row.discovery_cached_at = at

"""Providers that administrators define: listed, made, changed and taken away while the service runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec
from django.db import IntegrityError, transaction

from authsvc import conf
from authsvc.errors import ValidationFailed
from authsvc.security import encryption
from oauthproviders import errors, queries
from oauthproviders.base import deadline
from oauthproviders.custom import definitions, provider, safe_urls
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.models import CustomProvider, ProviderType
from oauthproviders.oidc import openid_connect

_NEEDED = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")


def listed(*, provider_type: str) -> list[CustomProvider]:
    """All providers, or those of one type, newest first. Raises ValidationFailed for a type there is not."""
    found = CustomProvider.objects.order_by("-created_at", "-id")
    if not provider_type:
        return list(found)
    if provider_type not in ProviderType.values:
        raise ValidationFailed("type must be either 'oauth2' or 'oidc'")
    return list(found.filter(provider_type=provider_type))


def find(identifier: str) -> CustomProvider:
    """Raises ValidationFailed, CustomProviderNotFound."""
    definitions.check_identifier(identifier)
    row = CustomProvider.objects.filter(identifier=identifier).first()
    if row is None:
        raise errors.CustomProviderNotFound
    return row


@deadline.shared()
def create(given: ProviderDefinition, *, at: datetime) -> CustomProvider:
    """Raises ValidationFailed, TooManyCustomProviders, CustomProviderExists."""
    definitions.check_complete(given)
    _check_quota()
    _check_addresses(given)
    row = CustomProvider(id=uuid4(), created_at=at, updated_at=at)
    if CustomProvider.objects.filter(identifier=given.identifier).exists():
        raise errors.CustomProviderExists
    _fill(row, given.values())
    if row.provider_type == ProviderType.OIDC:
        _discover(row, at=at)
    try:
        with transaction.atomic(durable=True):
            queries.lock_custom_providers()
            _check_quota()
            row.save(force_insert=True)
    except IntegrityError:
        raise errors.CustomProviderExists from None  # others were faster
    return row


@deadline.shared()
def update(identifier: str, given: ProviderDefinition, *, at: datetime) -> CustomProvider:
    """Change what is given, but never what a provider is called or what it speaks.

    Raises ValidationFailed, CustomProviderNotFound.
    """
    row = find(identifier)
    definitions.check_values(given)
    _check_addresses(given)
    changes = {name: value for name, value in given.values().items() if name not in ("provider_type", "identifier")}
    _fill(row, changes)
    row.updated_at = at
    changed = [*changes, "updated_at"]
    if row.provider_type == ProviderType.OIDC and (given.issuer or given.discovery_url):
        _discover(row, at=at)
        changed += ["cached_discovery", "discovery_cached_at"]
    with transaction.atomic(durable=True):
        if not CustomProvider.objects.filter(id=row.id).update(**{name: getattr(row, name) for name in changed}):
            raise errors.CustomProviderNotFound
    return row


def delete(identifier: str) -> None:
    """Raises ValidationFailed, CustomProviderNotFound."""
    row = find(identifier)
    with transaction.atomic(durable=True):
        deleted, _ = CustomProvider.objects.filter(id=row.id).delete()
    if not deleted:
        raise errors.CustomProviderNotFound


def _check_quota() -> None:
    most = conf.current().custom_providers.max_providers
    if most and CustomProvider.objects.count() >= most:
        raise errors.TooManyCustomProviders


def _check_addresses(given: ProviderDefinition) -> None:
    for address in given.addresses:
        try:
            safe_urls.check(address, private_allowed=not provider.is_public_only())
        except safe_urls.UnsafeUrl as reason:
            raise ValidationFailed(str(reason)) from None


def _fill(row: CustomProvider, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    if "client_secret" in values:
        row.client_secret = encryption.encrypt(values["client_secret"], bound_to=row.id)
    row.scopes = provider.scopes_of(row.provider_type, row.scopes)


def _discover(row: CustomProvider, *, at: datetime) -> None:
    """Let an issuer say what it is before anybody is sent there."""
    issuer = provider.issuer_of(row)
    try:
        found = openid_connect.fetch(issuer)
    except errors.Unusable as reason:
        raise ValidationFailed(f'OIDC discovery from "{issuer.discovery_url}" failed: {reason}') from None
    missing = [name for name in _NEEDED if not getattr(found, name)]
    if missing:
        raise ValidationFailed(f"OIDC discovery document is missing required fields: {', '.join(missing)}")
    row.cached_discovery = {key: value for key, value in msgspec.to_builtins(found).items() if value not in (None, "")}
    row.discovery_cached_at = at

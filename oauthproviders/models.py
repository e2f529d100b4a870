"""Client secrets of pending flows, and custom providers."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length, Now

from authsvc.db.sql import namespaced

models.TextField.register_lookup(Length)

_MAX_URL_LENGTH = 2048
URL_FIELDS = ("issuer", "discovery_url", "authorization_url", "token_url", "userinfo_url", "jwks_uri")


class ProviderType(models.TextChoices):
    OAUTH2 = "oauth2"
    OIDC = "oidc"


class ClientState(models.Model):
    """A secret of a pending flow: a PKCE verifier, or the secret of an OAuth 1.0a request token."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    provider_type = models.TextField()
    code_verifier = models.TextField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("oauth_client_states")
        indexes = [models.Index(fields=["created_at"], name=namespaced("idx_oauth_client_states_created_at"))]

    def __str__(self) -> str:
        return f"{self.provider_type} {self.id}"


class UsedWalletMessage(models.Model):
    """A message of a wallet that has signed in, until it is too old, so that it signs in once."""

    digest = models.TextField(primary_key=True)
    """SHA-256 of chain, address and message in hex."""
    expires_at = models.DateTimeField()

    class Meta:
        db_table = namespaced("wallet_messages")
        indexes = [models.Index(fields=["expires_at"], name=namespaced("wallet_messages_expires_at_idx"))]

    def __str__(self) -> str:
        return self.digest


def _url_constraint(name: str) -> models.CheckConstraint:
    """A URL of a provider is an https URL of limited length, or NULL."""
    is_valid = Q(**{f"{name}__startswith": "https://"}) & Q(**{f"{name}__length__lte": _MAX_URL_LENGTH})
    return models.CheckConstraint(
        condition=Q(**{f"{name}__isnull": True}) | is_valid, name=namespaced(f"custom_oauth_providers_{name}_check")
    )


class CustomProvider(models.Model):
    """A provider with an identifier `custom:<name>`; `client_secret` is encrypted if encryption is enabled."""

    encrypted_columns: ClassVar = ("client_secret",)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    provider_type = models.TextField(choices=ProviderType)
    identifier = models.TextField()
    name = models.TextField()
    client_id = models.TextField()
    client_secret = models.TextField()
    acceptable_client_ids = ArrayField(models.TextField(), default=list, db_default=[])
    scopes = ArrayField(models.TextField(), default=list, db_default=[])
    custom_claims_allowlist = ArrayField(models.TextField(), default=list, db_default=[])
    pkce_enabled = models.BooleanField(default=True, db_default=True)
    enabled = models.BooleanField(default=True, db_default=True)
    attribute_mapping = models.JSONField(default=dict, db_default={})
    authorization_params = models.JSONField(default=dict, db_default={})
    email_optional = models.BooleanField(default=False, db_default=False)
    skip_nonce_check = models.BooleanField(default=False, db_default=False)
    issuer = models.TextField(null=True)
    discovery_url = models.TextField(null=True)
    cached_discovery = models.JSONField(null=True)
    discovery_cached_at = models.DateTimeField(null=True)
    authorization_url = models.TextField(null=True)
    token_url = models.TextField(null=True)
    userinfo_url = models.TextField(null=True)
    jwks_uri = models.TextField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = namespaced("custom_oauth_providers")
        indexes = [
            models.Index(fields=["provider_type"], name=namespaced("custom_oauth_providers_type_idx")),
            models.Index(fields=["enabled"], name=namespaced("custom_oauth_providers_enabled_idx")),
            models.Index(fields=["-created_at", "-id"], name=namespaced("custom_oauth_providers_created_at_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["identifier"], name=namespaced("custom_oauth_providers_identifier_key")),
            models.CheckConstraint(
                condition=Q(provider_type__in=ProviderType.values),
                name=namespaced("custom_oauth_providers_provider_type_check"),
            ),
            models.CheckConstraint(
                condition=Q(identifier__regex=r"^[a-z0-9][a-z0-9:-]{0,48}[a-z0-9]$"),
                name=namespaced("custom_oauth_providers_identifier_check"),
            ),
            models.CheckConstraint(
                condition=Q(name__length__gte=1, name__length__lte=100),
                name=namespaced("custom_oauth_providers_name_check"),
            ),
            models.CheckConstraint(
                condition=Q(client_id__length__gte=1, client_id__length__lte=512),
                name=namespaced("custom_oauth_providers_client_id_check"),
            ),
            models.CheckConstraint(
                condition=~Q(provider_type="oidc") | Q(issuer__isnull=False),
                name=namespaced("custom_oauth_providers_oidc_check"),
            ),
            models.CheckConstraint(
                condition=~Q(provider_type="oauth2")
                | Q(authorization_url__isnull=False, token_url__isnull=False, userinfo_url__isnull=False),
                name=namespaced("custom_oauth_providers_oauth2_check"),
            ),
            *(_url_constraint(name) for name in URL_FIELDS),
        ]

    def __str__(self) -> str:
        return self.identifier

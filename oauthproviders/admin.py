"""Custom providers in the operator console."""

from __future__ import annotations

from django.contrib import admin

from authsvc.console.model_admin import OperatorAdmin
from oauthproviders.models import CustomProvider


@admin.register(CustomProvider)
class CustomProviderAdmin(OperatorAdmin):
    """Read-only: the API creates and changes providers. Secrets are not displayed."""

    list_display = ("identifier", "name", "provider_type", "enabled", "issuer", "authorization_url", "updated_at")
    list_filter = ("provider_type", "enabled")
    search_fields = ("identifier", "name", "issuer")
    ordering = ("-created_at", "-id")
    fields = (
        "identifier", "name", "provider_type", "enabled", "client_id", "acceptable_client_ids", "scopes",
        "pkce_enabled", "email_optional", "skip_nonce_check", "issuer", "discovery_url", "authorization_url",
        "token_url", "userinfo_url", "jwks_uri", "attribute_mapping", "custom_claims_allowlist",
        "authorization_params", "discovery_cached_at", "created_at", "updated_at",
    )  # fmt: skip

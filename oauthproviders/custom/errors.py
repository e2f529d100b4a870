"""Errors of /admin/custom-providers."""

from __future__ import annotations

from authsvc.errors import ApiError


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

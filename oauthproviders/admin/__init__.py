"""Console pages of providers. Django imports `admin` to register them."""

from oauthproviders.admin.custom_provider_admin import CustomProviderAdmin

__all__ = ["CustomProviderAdmin"]

"""Console pages of hooks and webhooks. Django imports `admin` to register them."""

from hooks.admin.delivery_admin import WebhookDeliveryAdmin
from hooks.admin.endpoint_admin import WebhookEndpointAdmin

__all__ = ["WebhookDeliveryAdmin", "WebhookEndpointAdmin"]

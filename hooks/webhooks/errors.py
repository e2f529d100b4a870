"""Errors of the administration of webhooks."""

from __future__ import annotations

from authsvc.errors import ApiError, ValidationFailed


class WebhooksDisabled(ApiError):
    status = 404
    error_code = "feature_disabled"
    message = "Webhooks are disabled"


class EndpointNotFound(ApiError):
    status = 404
    error_code = "webhook_endpoint_not_found"
    message = "Webhook endpoint not found"


class DeliveryNotFound(ApiError):
    status = 404
    error_code = "webhook_delivery_not_found"
    message = "Webhook delivery not found"


class EventNotFound(ApiError):
    status = 404
    error_code = "webhook_event_not_found"
    message = "Webhook event not found"


class EndpointQuotaExceeded(ApiError):
    status = 400
    error_code = "over_webhook_endpoint_quota"
    message = "Maximum number of webhook endpoints reached"


class EndpointInvalid(ValidationFailed):
    """A value of an endpoint is missing or not permitted."""


class EndpointIsDisabled(ValidationFailed):
    message = "Webhook endpoint is disabled"


class ReplayInvalid(ValidationFailed):
    """A value of a replay is missing or not permitted."""


class DeliveryFilterInvalid(ValidationFailed):
    """A parameter of the list of deliveries has no valid value."""

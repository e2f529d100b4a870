"""Routes of the hooks app."""

from __future__ import annotations

from authsvc.api.views import slash_optional
from hooks.webhooks import views

_ENDPOINT = "admin/webhooks/endpoints/<str:endpoint_id>"
_DELIVERY = "admin/webhooks/deliveries/<str:delivery_id>"

urlpatterns = [
    slash_optional("admin/webhooks/event_types", views.EventTypesView.as_view()),
    slash_optional("admin/webhooks/endpoints", views.EndpointsView.as_view()),
    slash_optional(_ENDPOINT, views.EndpointView.as_view()),
    slash_optional(f"{_ENDPOINT}/rotate_secret", views.SecretView.as_view()),
    slash_optional(f"{_ENDPOINT}/ping", views.PingView.as_view()),
    slash_optional(f"{_ENDPOINT}/replay", views.ReplayView.as_view()),
    slash_optional("admin/webhooks/deliveries", views.DeliveriesView.as_view()),
    slash_optional(_DELIVERY, views.DeliveryView.as_view()),
    slash_optional(f"{_DELIVERY}/retry", views.RetryView.as_view()),
    slash_optional("admin/webhooks/events/<str:event_id>", views.EventView.as_view()),
]

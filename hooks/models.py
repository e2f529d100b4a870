"""Endpoints of webhooks, the events that are recorded for them, their deliveries, and the attempts of each."""

from __future__ import annotations

import uuid
from typing import ClassVar
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from authsvc.db.sql import namespaced


class DeliveryStatus(models.TextChoices):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DisabledReason(models.TextChoices):
    MANUAL = "manual", "disabled by an administrator"
    GONE = "gone", "answered 410"
    FAILING = "failing", "failed for too long"


class WebhookEndpoint(models.Model):
    """A URL of another system, which receives events."""

    encrypted_columns: ClassVar = ("secret", "previous_secret")
    always_encrypted: ClassVar = encrypted_columns

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    url = models.TextField("URL")
    description = models.TextField(db_default="")
    event_types = ArrayField(models.TextField(), verbose_name="event types")
    """Types, prefixes of them with `.*`, or `*`."""
    secret = models.TextField()
    previous_secret = models.TextField(null=True)
    previous_secret_until = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.TextField("reason", choices=DisabledReason, null=True)
    failing_since = models.DateTimeField(null=True)
    """The first of the failed attempts that no success has followed."""
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)
    """The cleanup deletes the deliveries of a deleted endpoint, and then its row."""

    class Meta:
        db_table = namespaced("webhook_endpoints")
        verbose_name = "webhook endpoint"
        verbose_name_plural = "webhooks"
        constraints = [
            models.CheckConstraint(
                condition=Q(disabled_reason__isnull=True) | Q(disabled_reason__in=DisabledReason.values),
                name=namespaced("webhook_endpoints_disabled_reason_check"),
            ),
        ]

    def __str__(self) -> str:
        # Paths and queries of URLs often contain credentials.
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


class WebhookEvent(models.Model):
    """A change that is delivered to endpoints. The transaction of the change inserts the row."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    sequence = models.BigIntegerField()
    """Of a sequence of the database: rows commit in another order."""
    type = models.TextField()
    user_id = models.UUIDField(null=True)
    body = models.BinaryField()
    """The bytes of the JSON payload that endpoints receive."""
    is_fanned_out = models.BooleanField(db_default=False)
    """Its deliveries are created."""
    must_scrub = models.BooleanField(db_default=False)
    """The user is deleted: the personal data is removed once no delivery is pending."""
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = namespaced("webhook_events")
        verbose_name = "webhook event"
        indexes = [
            models.Index(
                fields=["sequence"], condition=Q(is_fanned_out=False), name=namespaced("webhook_events_new_idx")
            ),
            models.Index(
                fields=["user_id"], condition=Q(user_id__isnull=False), name=namespaced("webhook_events_user_id_idx")
            ),
            models.Index(
                fields=["sequence"], condition=Q(must_scrub=True), name=namespaced("webhook_events_must_scrub_idx")
            ),
            models.Index(fields=["created_at"], name=namespaced("webhook_events_created_at_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["sequence"], name=namespaced("webhook_events_sequence_key")),
        ]

    def __str__(self) -> str:
        return f"evt_{self.id}"


class WebhookDelivery(models.Model):
    """An event for an endpoint.

    Of the pending deliveries of a user to an endpoint, one has a `next_attempt_at`: the earliest, or one that was
    already due when an earlier one was repeated. The others wait for its end.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    event = models.ForeignKey(
        WebhookEvent, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="deliveries"
    )
    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="deliveries"
    )
    type = models.TextField()
    user_id = models.UUIDField(null=True)
    sequence = models.BigIntegerField()
    """As `type` and `user_id`, of the event."""
    status = models.TextField(choices=DeliveryStatus, db_default=DeliveryStatus.PENDING)
    attempts = models.IntegerField(db_default=0)
    earlier_attempts = models.IntegerField(db_default=0)
    """Attempts before the delivery was repeated, which begins the schedule of retries again."""
    next_attempt_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)
    """A worker attempts the delivery; after this time another one may."""
    last_status = models.IntegerField(null=True)
    last_error = models.TextField(null=True)
    last_attempt_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = namespaced("webhook_deliveries")
        verbose_name = "webhook delivery"
        verbose_name_plural = "webhook deliveries"
        indexes = [
            models.Index(
                fields=["endpoint", "next_attempt_at"],
                condition=Q(status="pending"),
                name=namespaced("webhook_deliveries_due_idx"),
            ),
            models.Index(
                fields=["endpoint", "user_id", "sequence"],
                condition=Q(status="pending", user_id__isnull=False),
                name=namespaced("webhook_deliveries_order_idx"),
            ),
            # Without pending ones: the planner would prefer it to the index of due ones while its statistics are old.
            models.Index(
                "status",
                F("created_at").desc(),
                condition=Q(status__in=["failed", "cancelled"]),
                name=namespaced("webhook_deliveries_status_idx"),
            ),
            models.Index(fields=["endpoint", "-created_at", "-id"], name=namespaced("webhook_deliveries_endpoint_idx")),
            models.Index(fields=["-created_at", "-id"], name=namespaced("webhook_deliveries_created_at_idx")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["event", "endpoint"], name=namespaced("webhook_deliveries_event_key")),
            models.CheckConstraint(
                condition=Q(status__in=DeliveryStatus.values), name=namespaced("webhook_deliveries_status_check")
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class WebhookAttempt(models.Model):
    """One request of a delivery."""

    id = models.BigAutoField(primary_key=True)
    delivery = models.ForeignKey(
        WebhookDelivery, on_delete=models.CASCADE, db_constraint=False, related_name="attempts_log"
    )
    attempt = models.IntegerField()
    started_at = models.DateTimeField()
    duration_ms = models.IntegerField()
    status = models.IntegerField(null=True)
    """NULL without a response."""
    error = models.TextField(null=True)
    response_head = models.TextField(null=True)
    """The start of the response, without secrets."""

    class Meta:
        db_table = namespaced("webhook_attempts")
        verbose_name = "webhook attempt"

    def __str__(self) -> str:
        return f"{self.delivery_id} {self.attempt}"

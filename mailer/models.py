"""Delivery attempts, without recipient and content, and the queued messages."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now

from authsvc.db.sql import namespaced
from authsvc.jobs.queued_jobs import QueuedJob


class AttemptOutcome(models.TextChoices):
    DELIVERED = "delivered"
    RETRY = "retry"
    FAILED = "failed"


class Attempt(models.Model):
    """One attempt to deliver one message."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    message_id = models.UUIDField()
    channel = models.TextField()
    """`email`, `sms` or `whatsapp`."""
    kind = models.TextField()
    user_id = models.UUIDField(null=True)
    attempt = models.IntegerField()
    """1 for the first attempt."""
    created_at = models.DateTimeField(db_default=Now())
    outcome = models.TextField(choices=AttemptOutcome)
    gateway_id = models.TextField(db_default="", default="")
    """The gateway's id of the message, or its response; empty unless delivered."""
    error = models.TextField(db_default="", default="")

    class Meta:
        db_table = namespaced("message_attempts")
        verbose_name = "delivery attempt"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(outcome__in=["delivered", "retry", "failed"]),
                name=namespaced("message_attempts_outcome_check"),
            )
        ]
        indexes = [
            models.Index(fields=["message_id"], name=namespaced("message_attempts_message_id_idx")),
            models.Index(
                fields=["-created_at"],
                condition=models.Q(outcome="failed"),
                name=namespaced("message_attempts_failed_idx"),
            ),
            models.Index(fields=["user_id", "-created_at"], name=namespaced("message_attempts_user_id_idx")),
            models.Index(fields=["-created_at", "-id"], name=namespaced("message_attempts_created_at_idx")),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} #{self.attempt} {self.outcome}"


class Message(QueuedJob):
    """A waiting or failed message. `delivery.undelivered_messages` lists and decrypts it."""

    class Meta(QueuedJob.Meta):
        abstract = False
        verbose_name = "undelivered message"

    def __str__(self) -> str:
        return f"{self.args['kind']} {self.args['message_id']}"

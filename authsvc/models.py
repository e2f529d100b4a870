"""Rows that belong to no app: the audit trail and the counters of request and message limits."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now

from authsvc.db.sql import namespaced


class AuditLogEntry(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    payload = models.JSONField(null=True)
    created_at = models.DateTimeField(null=True)
    ip_address = models.CharField(max_length=64, db_default="")

    class Meta:
        db_table = namespaced("audit_log_entries")
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["-created_at", "-id"], name=namespaced("audit_log_entries_created_at_idx"))]

    def __str__(self) -> str:
        return f"{self.created_at} {self.id}"


class RateLimit(models.Model):
    """One token bucket. The table is UNLOGGED: a crash of the database empties it, which only forgives."""

    pk = models.CompositePrimaryKey("bucket", "key")
    bucket = models.TextField()
    key = models.TextField()
    tokens = models.FloatField()
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = namespaced("rate_limits")

    def __str__(self) -> str:
        return f"{self.bucket} {self.key}"

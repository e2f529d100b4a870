"""The table of audit entries."""

from __future__ import annotations

import uuid

from django.db import models

from authsvc.db.fields import JSONField
from authsvc.db.sql import namespaced


class AuditLogEntry(models.Model):
    """An entry. The table is partitioned by month of `created_at`, which is part of its primary key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    payload = JSONField(null=True)
    created_at = models.DateTimeField()
    ip_address = models.CharField(max_length=64, db_default="")

    class Meta:
        db_table = namespaced("audit_log_entries")
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        indexes = [models.Index(fields=["created_at", "id"], name=namespaced("audit_log_entries_created_at_idx"))]

    def __str__(self) -> str:
        return f"{self.created_at} {self.id}"

"""The table of rate-limit counters."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from authsvc.db.sql import namespaced


class RateLimit(models.Model):
    """One token bucket. The table is UNLOGGED: a crash of the database empties it, which resets the limits."""

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

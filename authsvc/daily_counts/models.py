"""The tables of daily counts, and of the last row that was counted of each source."""

from __future__ import annotations

from django.db import models

from authsvc.db.sql import namespaced


class DailyCount(models.Model):
    """The number of events of a series on one day (UTC)."""

    pk = models.CompositePrimaryKey("day", "series", "label")
    day = models.DateField()
    series = models.TextField()
    label = models.TextField(db_default="")
    """A part of the series, such as the cause of refused sign-ins."""
    count = models.BigIntegerField()

    class Meta:
        db_table = namespaced("daily_counts")

    def __str__(self) -> str:
        return f"{self.day} {self.series} {self.label}"


class CountProgress(models.Model):
    """The rows of a source that are counted: those between two positions of (`created_at`, `id`)."""

    source = models.TextField(primary_key=True)
    counted_until = models.DateTimeField()
    """`created_at` of the last counted row; later if no further row was found."""
    last_id = models.UUIDField()
    counted_from = models.DateTimeField(null=True)
    """Rows before this position are not counted yet; NULL if all are."""
    first_id = models.UUIDField(null=True)

    class Meta:
        db_table = namespaced("daily_counts_progress")

    def __str__(self) -> str:
        return f"{self.source} {self.counted_until}"

"""The table of rate-limit counters, and its personal data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django.db import models
from django.db.models.functions import Now

from authsvc.db.sql import namespaced
from authsvc.personal_data import DataSubject, Row, export_rows


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


class RateLimitPersonalData:
    """Counters whose key is an address of the user, or is or begins with the user's id (PersonalDataSource)."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "rate_limits", export_rows(_counters(data_subject))

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        return {"rate_limits": _counters(data_subject)._raw_delete("default")}


def _counters(data_subject: DataSubject) -> models.QuerySet[RateLimit]:
    keys = {*data_subject.addresses, str(data_subject.id)}
    is_about_user = models.Q(key__in=keys) | models.Q(key__startswith=f"{data_subject.id}/")
    return RateLimit.objects.filter(is_about_user)

"""Personal data in the rate-limit counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django.db.models import Q, QuerySet

from authsvc.personal_data import DataSubject, Row, export_rows
from authsvc.security.models import RateLimit


class RateLimitCounters:
    """Counters whose key is an address of the user, or begins with the user's id (PersonalDataSource)."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "rate_limits", export_rows(_counters(data_subject))

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        return {"rate_limits": _counters(data_subject)._raw_delete("default")}


def _counters(data_subject: DataSubject) -> QuerySet[RateLimit]:
    return RateLimit.objects.filter(Q(key__in=data_subject.addresses) | Q(key__startswith=f"{data_subject.id}/"))

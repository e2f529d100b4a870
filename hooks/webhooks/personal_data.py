"""Personal data in events and deliveries: export, and removal when a user is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson
from django.db import transaction

from authsvc.personal_data import DataSubject, Row, export_rows
from hooks.models import WebhookDelivery, WebhookEvent
from hooks.webhooks import queries

_BATCH_SIZE = 500


class WebhooksPersonalData:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "webhook_events", _events(data_subject)
        deliveries = WebhookDelivery.objects.filter(user_id=data_subject.id).order_by("sequence", "id")
        yield "webhook_deliveries", export_rows(deliveries)

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """Scrub rows, which stay without the user. Pending deliveries, of the deletion itself too, come first."""
        with transaction.atomic(savepoint=False):
            events, deliveries = queries.scrub(data_subject.id)
        return {"webhook_events": events, "webhook_deliveries": deliveries}


def _events(data_subject: DataSubject) -> Iterator[Row]:
    events = WebhookEvent.objects.filter(user_id=data_subject.id).order_by("sequence")
    for id_, created_at, body in events.values_list("id", "created_at", "body").iterator(chunk_size=_BATCH_SIZE):
        yield {"id": id_, "created_at": created_at, "body": orjson.Fragment(bytes(body))}

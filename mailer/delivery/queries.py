"""Hand-written SQL that finds the queued messages of one user."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from authsvc.jobs import registry
from mailer.delivery import tasks
from mailer.models import Message

_BATCH_SIZE = 500


def messages_of_recipients(digests: Collection[str]) -> Iterator[Message]:
    """Messages with any of these recipient digests, and in batches all old messages, which have no digests."""
    # Literals instead of parameters let a prepared statement use the partial indexes of this installation. One SELECT
    # per index, because with OR the planner scans an index completely if it expects a short queue.
    selected = f"""
        SELECT id, queue_name, task_name, status, scheduled_at, attempts, args
          FROM procrastinate_jobs
         WHERE queue_name = '{registry.queue()}' AND task_name = '{tasks.deliver.name}'
    """
    sql = f"""
        ({selected} AND args ->> 'to_user' = ANY(%(digests)s))
        UNION
        ({selected} AND args ->> 'to_address' = ANY(%(digests)s))
        UNION
        ({selected} AND NOT args ? 'to_address' AND id > %(after)s ORDER BY id LIMIT {_BATCH_SIZE:d})
        ORDER BY id
    """
    remaining, after = list(digests), 0
    while True:
        without_digest = []
        for message in Message.objects.raw(sql, {"digests": remaining, "after": after}):
            yield message
            if "to_address" not in message.args:
                without_digest.append(message.pk)
        if len(without_digest) < _BATCH_SIZE:
            return
        remaining, after = [], without_digest[-1]

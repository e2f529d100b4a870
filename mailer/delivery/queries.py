"""Hand-written SQL: the messages for one person, among however many wait."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from authsvc.jobs import registry
from mailer import tasks
from mailer.models import Message

_AT_ONCE = 500


def marked(marks: Collection[str]) -> Iterator[Message]:
    """Messages with any of these marks, and all of the time before there were marks, some hundred at a time."""
    # As text, not as parameters: a prepared statement is to use the indexes, which hold this installation's alone. One
    # condition for each index, because with OR one of them is read whole where the planner takes the queue for short.
    chosen = f"""
        SELECT id, queue_name, task_name, status, scheduled_at, attempts, args
          FROM procrastinate_jobs
         WHERE queue_name = '{registry.queue()}' AND task_name = '{tasks.deliver.name}'
    """
    sql = f"""
        ({chosen} AND args ->> 'to_user' = ANY(%(marks)s))
        UNION
        ({chosen} AND args ->> 'to_address' = ANY(%(marks)s))
        UNION
        ({chosen} AND NOT args ? 'to_address' AND id > %(after)s ORDER BY id LIMIT {_AT_ONCE:d})
        ORDER BY id
    """
    wanted, after = list(marks), 0
    while True:
        unmarked = []
        for message in Message.objects.raw(sql, {"marks": wanted, "after": after}):
            yield message
            if "to_address" not in message.args:
                unmarked.append(message.pk)
        if len(unmarked) < _AT_ONCE:
            return
        wanted, after = [], unmarked[-1]

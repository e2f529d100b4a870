"""What the mailer holds about a user: messages that wait or could not be delivered, and what became of all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from authsvc.jobs import queued_jobs
from authsvc.messaging import Email, Sms
from authsvc.personal_data import DataSubject, Row, export_rows
from mailer.delivery import encryption, queries, undelivered
from mailer.models import Attempt, Message


class Messages:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "messages", (_shown(row, message) for row, message in _messages(data_subject))
        yield (
            "message_attempts",
            export_rows(Attempt.objects.filter(user_id=data_subject.id).order_by("created_at", "id")),
        )

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """A message that a worker has in hand is on its way out, and is left to it."""
        removed = queued_jobs.delete([row.pk for row, _ in _messages(data_subject)])
        return {
            "messages": len(removed),
            "message_attempts": Attempt.objects.filter(user_id=data_subject.id)._raw_delete("default"),
        }


def _messages(data_subject: DataSubject) -> Iterator[tuple[Message, Email | Sms]]:
    for row in queries.marked([encryption.mark(data_subject.id), *map(encryption.mark, data_subject.addresses)]):
        # Only the sealed part says whose it is; one of another JWT_SECRET nobody can read any more.
        message = undelivered.opened(row)
        if message and (message.user_id == data_subject.id or message.to in data_subject.addresses):
            yield row, message


def _shown(row: Message, message: Email | Sms) -> Row:
    """Neither the code nor the link, which stand for the data_subject."""
    return {
        "id": str(message.id),
        "channel": row.args["channel"],
        "kind": str(message.kind),
        "to": message.to,
        "status": row.status,
        "attempts": row.attempts,
        "scheduled_at": row.scheduled_at,
        "expires_at": message.expires_at,
    }

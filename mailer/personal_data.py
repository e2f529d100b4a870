"""What the mailer holds about a person: messages that wait or could not be delivered, and what became of all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from authsvc.jobs import queued_jobs
from authsvc.messaging import Email, Sms
from authsvc.personal_data import Person, Row, shown
from mailer.delivery import encryption, queries, undelivered
from mailer.models import Attempt, Message


class Messages:
    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "messages", (_shown(row, message) for row, message in _messages(person))
        yield "message_attempts", shown(Attempt.objects.filter(user_id=person.id).order_by("created_at", "id"))

    def forget(self, person: Person) -> Mapping[str, int]:
        """A message that a worker has in hand is on its way out, and is left to it."""
        removed = queued_jobs.remove([row.pk for row, _ in _messages(person)])
        return {
            "messages": len(removed),
            "message_attempts": Attempt.objects.filter(user_id=person.id)._raw_delete("default"),
        }


def _messages(person: Person) -> Iterator[tuple[Message, Email | Sms]]:
    for row in queries.marked([encryption.mark(person.id), *map(encryption.mark, person.addresses)]):
        # Only the sealed part says whose it is; one of another JWT_SECRET nobody can read any more.
        message = undelivered.opened(row)
        if message and (message.user_id == person.id or message.to in person.addresses):
            yield row, message


def _shown(row: Message, message: Email | Sms) -> Row:
    """Neither the code nor the link, which stand for the person."""
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

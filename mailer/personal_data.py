"""What the mailer holds about a person: messages that wait or could not be delivered, and what became of all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from authsvc.core.jobs.stored import Stored, remove, stored
from authsvc.core.messaging import Email, Sms
from authsvc.core.personal_data import Person, Row, shown
from mailer import sealing, tasks
from mailer.models import Attempt


class Messages:
    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "messages", (_shown(job, message) for job, message in _messages(person))
        yield "message_attempts", shown(Attempt.objects.filter(user_id=person.id).order_by("created_at", "id"))

    def forget(self, person: Person) -> Mapping[str, int]:
        """A message that a worker has in hand is on its way out, and is left to it."""
        removed = remove([job.id for job, _ in _messages(person)])
        return {
            "messages": len(removed),
            "message_attempts": Attempt.objects.filter(user_id=person.id)._raw_delete("default"),
        }


def _messages(person: Person) -> Iterator[tuple[Stored, Email | Sms]]:
    """Only the sealed part of a message says whose it is."""
    for job in stored(tasks.deliver.name):
        try:
            message = sealing.unseal(job.arguments["sealed"], message_id=UUID(job.arguments["message_id"]))
        except sealing.SealBroken:
            continue  # of another JWT_SECRET: nobody can read it any more
        if message.user_id == person.id or message.to in person.addresses:
            yield job, message


def _shown(job: Stored, message: Email | Sms) -> Row:
    """Neither the code nor the link, which stand for the person."""
    return {
        "id": str(message.id),
        "channel": job.arguments["channel"],
        "kind": str(message.kind),
        "to": message.to,
        "status": job.status,
        "attempts": job.attempts,
        "scheduled_at": job.scheduled_at,
        "expires_at": message.expires_at,
    }

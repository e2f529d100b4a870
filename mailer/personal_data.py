"""Personal data in the mailer: waiting and failed messages, and delivery attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from authsvc.jobs import queued_jobs
from authsvc.messaging import Email, Sms
from authsvc.personal_data import DataSubject, Row, export_rows
from mailer.delivery import encryption, queries, undelivered_messages
from mailer.models import Attempt, Message


class Messages:
    """Messages and delivery attempts (PersonalDataSource)."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        attempts = Attempt.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "messages", (_export_message(row, message) for row, message in _messages(data_subject))
        yield "message_attempts", export_rows(attempts)

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """Messages that a worker is delivering are not deleted."""
        deleted = queued_jobs.delete([row.pk for row, _ in _messages(data_subject)])
        return {
            "messages": len(deleted),
            "message_attempts": Attempt.objects.filter(user_id=data_subject.id)._raw_delete("default"),
        }


def _messages(data_subject: DataSubject) -> Iterator[tuple[Message, Email | Sms]]:
    digests = [encryption.recipient_digest(name) for name in (str(data_subject.id), *data_subject.addresses)]
    for row in queries.messages_of_recipients(digests):
        # The recipient is in the ciphertext, which cannot be decrypted after a change of JWT_SECRET.
        message = undelivered_messages.decrypt_message(row)
        if message and (message.user_id == data_subject.id or message.to in data_subject.addresses):
            yield row, message


def _export_message(row: Message, message: Email | Sms) -> Row:
    """The message without its code and link, which would allow a sign-in as the user."""
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

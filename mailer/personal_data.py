"""Personal data in the mailer: waiting and failed messages, and delivery attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from authsvc.jobs import queued_jobs, registry
from authsvc.messaging import Email, Sms
from authsvc.personal_data import DataSubject, Row, export_rows
from mailer.delivery import encryption, tasks, undelivered_messages
from mailer.models import Attempt, Message

_BATCH_SIZE = 500


class MailerPersonalData:
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
    for row in messages_of_recipients(digests):
        # The recipient is in the ciphertext, which cannot be decrypted after a change of JWT_SECRET.
        message = undelivered_messages.decrypt_message(row)
        if message and (message.user_id == data_subject.id or message.to in data_subject.addresses):
            yield row, message


def messages_of_recipients(digests: Collection[str]) -> Iterator[Message]:
    """Messages with any of these recipient digests, and in batches all old messages, which have no digests."""
    # Literals instead of parameters let a prepared statement use the partial indexes of this installation. One SELECT
    # per index, because with OR the planner scans an index completely if it expects a short queue.
    selected = f"""
        SELECT id, queue_name, task_name, status, scheduled_at, attempts, args
          FROM procrastinate_jobs
         WHERE queue_name = '{registry.queue()}' AND task_name = '{tasks.deliver.name}'
    """  # noqa: S608  (own names)
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


def _export_message(row: Message, message: Email | Sms) -> Row:
    """The message without its code and link, which would allow a sign-in as the user."""
    return {
        "id": str(message.id),
        "channel": row.args["channel"],
        "kind": str(message.type),
        "to": message.to,
        "status": row.status,
        "attempts": row.attempts,
        "scheduled_at": row.scheduled_at,
        "expires_at": message.expires_at,
    }

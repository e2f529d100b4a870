"""Waiting and failed messages: listing, search by recipient, retry of failed ones."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import models, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from authsvc import audit, jobs
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows
from authsvc.jobs import queued_jobs, registry
from authsvc.jobs.queued_jobs import JobStatus
from authsvc.messaging import Email, Sms
from mailer.delivery import encryption, tasks
from mailer.errors import MessageExpired, MessageUndecryptable, NotFailed
from mailer.models import Attempt, Message

MAX_DECRYPTED = 2_000
"""Newest messages that a search by recipient decrypts."""
MAX_OF_USER = 100
"""Newest messages that a search by user finds."""
MAX_RETRIED = 1_000
"""Oldest failed messages that `retry_failed` retries in one call."""
_MAX_AUDITED = 100
"""Ids of messages in the audit entry of `retry_failed`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    retried: int
    not_retryable: int
    """Unchanged messages: expired, or encrypted with another secret."""


def messages() -> QuerySet[Message]:
    """All queued messages with `accepted_at` and, from their attempts, `attempt_count`, `last_at` and `last_error`."""
    attempts = Attempt.objects.filter(
        message_id=Cast(KeyTextTransform("message_id", OuterRef("args")), models.UUIDField())
    )
    newest = attempts.order_by("-attempt")
    counted = attempts.order_by().values("message_id").annotate(number=Count("*")).values("number")
    return _queued_messages().annotate(
        accepted_at=queued_jobs.ACCEPTED_AT,
        attempt_count=Subquery(counted),
        last_at=Subquery(newest.values("created_at")[:1]),
        last_error=Subquery(newest.values("error")[:1]),
    )


def decrypt_message(message: Message) -> Email | Sms | None:
    """The message's content; None if it was encrypted with another secret."""
    try:
        return encryption.decrypt(message.args["sealed"], message_id=UUID(message.args["message_id"]))
    except encryption.DecryptionFailed:
        return None


def find_by_recipient(text: str) -> list[int]:
    """Ids of the newest messages whose address or phone number contains `text`."""
    part = text.strip().removeprefix("+").lower()
    newest = _queued_messages().order_by("-id")[:MAX_DECRYPTED]
    return [row.pk for row in newest if (content := decrypt_message(row)) and part in content.to.lower()]


def find_by_user(user_id: UUID) -> list[int]:
    """Ids of the newest messages to a user. Messages from before the digests were stored are not found."""
    # Literals instead of parameters let a prepared statement use the partial index of this installation.
    sql = f"""
        SELECT id FROM procrastinate_jobs
         WHERE queue_name = '{registry.queue()}' AND task_name = '{tasks.deliver.name}' AND args ->> 'to_user' = %s
         ORDER BY id DESC LIMIT {MAX_OF_USER:d}
    """  # noqa: S608  (own names)
    return [id_ for (id_,) in fetch_rows(sql, (encryption.recipient_digest(user_id),))]


def retry_message(job_id: int, *, actor: Administrator, caller: Caller, at: datetime) -> None:
    """Retry a failed message at once. Raises NotFailed, MessageExpired or MessageUndecryptable."""
    with transaction.atomic(durable=True):
        message = _lock_failed_messages().filter(id=job_id).first()
        if message is None:
            raise NotFailed
        content = decrypt_message(message)
        if content is None:
            raise MessageUndecryptable
        if _has_expired(content, at=at):
            raise MessageExpired
        traits = {"message_id": message.args["message_id"], "message_type": message.args["kind"]}
        if content.user_id is not None:
            traits["user_id"] = str(content.user_id)
        audit.record(audit.Action.MESSAGE_RETRIED, actor=actor, caller=caller, at=at, traits=traits)
        _requeue(message, actor=actor)


def retry_failed(*, actor: Administrator, caller: Caller, at: datetime) -> RetryResult:
    """Retry failed messages at once, and skip those that cannot be retried."""
    retried: list[str] = []
    not_retryable = 0
    with transaction.atomic(durable=True):
        for message in _lock_failed_messages().order_by("id").iterator():
            if len(retried) == MAX_RETRIED:
                break
            content = decrypt_message(message)
            if content is None or _has_expired(content, at=at):
                not_retryable += 1
            else:
                _requeue(message, actor=actor)
                retried.append(message.args["message_id"])
        traits = {
            "retried": len(retried),
            "not_retryable": not_retryable,
            "message_ids": retried[:_MAX_AUDITED],
        }
        audit.record(audit.Action.MESSAGES_RETRIED, actor=actor, caller=caller, at=at, traits=traits)
    return RetryResult(retried=len(retried), not_retryable=not_retryable)


def _queued_messages() -> QuerySet[Message]:
    return queued_jobs.jobs_of_task(tasks.deliver, Message.objects.all())


def _lock_failed_messages() -> QuerySet[Message]:
    # Another transaction that has locked a message is retrying it.
    return _queued_messages().filter(status=JobStatus.FAILED).select_for_update(skip_locked=True)


def _has_expired(content: Email | Sms, *, at: datetime) -> bool:
    return content.expires_at is not None and content.expires_at <= at


def _requeue(message: Message, *, actor: Administrator) -> None:
    jobs.retry_failed_job(job_id=message.pk)
    fields = {"message_id": message.args["message_id"], "mail_type": message.args["kind"], "by": actor.role}
    logger.info("message retried by an operator", extra=fields)

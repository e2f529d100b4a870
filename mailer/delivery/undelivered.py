"""Messages that are not out: finding them, opening whom they are for, trying failed ones again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import models, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from authsvc import jobs
from authsvc.audit import Administrator
from authsvc.jobs import queued_jobs
from authsvc.jobs.queued_jobs import Status
from authsvc.messaging import Email, Sms
from mailer import tasks
from mailer.delivery import encryption
from mailer.errors import MessageExpired, MessageSealed, NotFailed
from mailer.models import Attempt, Message

MOST_OPENED = 2_000
"""So many messages are opened to find those for an address, the newest ones."""
MOST_RETRIED = 1_000
"""So many failed messages are tried again at once, the oldest ones."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    retried: int
    hopeless: int
    """Left as they are: expired, or sealed under another secret."""


def messages() -> QuerySet[Message]:
    """All of this installation, with `accepted_at` and, from their attempts, `tries`, `last_at` and `last_error`."""
    of_it = Attempt.objects.filter(
        message_id=Cast(KeyTextTransform("message_id", OuterRef("args")), models.UUIDField())
    )
    newest = of_it.order_by("-attempt")
    counted = of_it.order_by().values("message_id").annotate(number=Count("*")).values("number")
    return _ours().annotate(
        accepted_at=queued_jobs.ACCEPTED_AT,
        tries=Subquery(counted),
        last_at=Subquery(newest.values("created_at")[:1]),
        last_error=Subquery(newest.values("error")[:1]),
    )


def opened(message: Message) -> Email | Sms | None:
    """What is in it; None when it was sealed under another secret."""
    try:
        return encryption.unseal(message.args["sealed"], message_id=UUID(message.args["message_id"]))
    except encryption.SealBroken:
        return None


def addressed_to(text: str) -> list[int]:
    """Ids of the newest messages for an address or number that has `text` in it."""
    wanted = text.strip().removeprefix("+").lower()
    newest = _ours().order_by("-id")[:MOST_OPENED]
    return [each.pk for each in newest if (content := opened(each)) and wanted in content.to.lower()]


def retry(job_id: int, *, actor: Administrator, at: datetime) -> None:
    """Try a failed message again, at once. Raises NotFailed, MessageExpired or MessageSealed."""
    with transaction.atomic(durable=True):
        message = _failed().filter(id=job_id).first()
        if message is None:
            raise NotFailed
        content = opened(message)
        if content is None:
            raise MessageSealed
        if _has_expired(content, at=at):
            raise MessageExpired
        _put_back(message, actor=actor)


def retry_failed(*, actor: Administrator, at: datetime) -> Retried:
    """Try failed messages again, at once; those that cannot be helped do not stop the others."""
    retried = hopeless = 0
    with transaction.atomic(durable=True):
        for message in _failed().order_by("id").iterator():
            if retried == MOST_RETRIED:
                break
            content = opened(message)
            if content is None or _has_expired(content, at=at):
                hopeless += 1
            else:
                _put_back(message, actor=actor)
                retried += 1
    return Retried(retried=retried, hopeless=hopeless)


def _ours() -> QuerySet[Message]:
    return queued_jobs.jobs_of_task(tasks.deliver, Message.objects.all())


def _failed() -> QuerySet[Message]:
    # Who holds one is trying it again at this moment.
    return _ours().filter(status=Status.FAILED).select_for_update(skip_locked=True)


def _has_expired(content: Email | Sms, *, at: datetime) -> bool:
    return content.expires_at is not None and content.expires_at <= at


def _put_back(message: Message, *, actor: Administrator) -> None:
    jobs.retry_failed_job(job_id=message.pk)
    about = {"message_id": message.args["message_id"], "mail_type": message.args["kind"], "by": actor.role}
    logger.info("message tried again by an operator", extra=about)

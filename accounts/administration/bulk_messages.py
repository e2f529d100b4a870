"""Messages of operators to many users: checks, the times at which the quota permits them, and the jobs that send them.

A job sends one message. It creates the link at the time of sending, so that a link does not expire while it waits.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from accounts.administration import errors, support_messages
from accounts.models import User
from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import conf, jobs, operator_access
from authsvc.audit import Administrator
from authsvc.caller import AuditContext, Caller
from authsvc.errors import ApiError, EmailRateExceeded, SmsRateExceeded
from authsvc.jobs import queued_jobs
from authsvc.messaging.quotas import QuotaLevel, read_levels
from authsvc.operator_access import Access

_HOUR = timedelta(hours=1)
_COLUMNS = (
    "id", "role", "email", "phone", "email_confirmed_at", "phone_confirmed_at", "confirmed_at", "invited_at",
    "last_sign_in_at", "banned_until", "deleted_at", "is_sso_user",
)  # fmt: skip
_MAX_WAITS = 200
"""Runs of a job that finds the quota used up, at most an hour apart; other messages of operators come first."""
_TASK = "accounts.send_bulk_message"

logger = logging.getLogger(__name__)


class BulkMessage(StrEnum):
    RECOVERY = "recovery"
    MAGIC_LINK = "magic_link"
    CONFIRMATION = "confirmation"


SERVICES: Mapping[BulkMessage, Callable[..., str]] = {
    BulkMessage.RECOVERY: support_messages.send_recovery,
    BulkMessage.MAGIC_LINK: support_messages.send_magic_link,
    BulkMessage.CONFIRMATION: support_messages.resend_confirmation,
}
"""The functions that send the message to one user, and return its recipient."""


@dataclass(slots=True, kw_only=True)
class Schedule:
    """The times at which further messages of operators may be sent by their quota."""

    level: QuotaLevel
    at: datetime
    waiting: int
    """Messages that are already scheduled or due."""

    def take(self) -> datetime | None:
        """The time of the next message; None for now. Raises EmailRateExceeded for a quota of zero."""
        run_at = self.time_of(self.waiting)
        self.waiting += 1
        return run_at

    def time_of(self, position: int) -> datetime | None:
        """The time of the message at this position, counted from 0; as `take`."""
        rate = self.level.rate
        if rate.events < 1:
            raise EmailRateExceeded
        further = position - self.level.left
        if further < 0:
            return None
        if rate.over is not None:
            return self.at + rate.over * (further + 1)
        return (self.level.full_at or self.at + _HOUR) + _HOUR * (further // rate.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a bulk message, before it is sent."""

    emails: int
    sms: int
    skipped: Mapping[str, int]
    """Reason → users who get no message."""
    rate: conf.Rate
    left: int
    """Messages that the quota permits now, without those that are already waiting."""
    waiting: int
    last_at: datetime | None
    """Time of the last message; None if all can be sent now, or none ever."""

    @property
    def recipients(self) -> int:
        return self.emails + self.sms


def estimate_cost(
    message: BulkMessage, users: Iterable[UserRecord], *, find_refusal: Callable[[UserRecord], str], at: datetime
) -> Cost:
    """The cost of a message to these users, without those that `find_refusal` gives a reason for.

    Runs two statements.
    """
    channels: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for user in users:
        if reason := find_refusal(user):
            skipped[reason] += 1
            continue
        try:
            channels[check_recipient(message, user, at=at)] += 1
        except ApiError as error:
            skipped[error.message] += 1
    schedule = read_schedule(at=at)
    number = channels.total()
    is_possible = number and schedule.level.rate.events >= 1
    return Cost(
        emails=channels["email"],
        sms=channels["phone"],
        skipped=skipped,
        rate=schedule.level.rate,
        left=max(0, schedule.level.left - schedule.waiting),
        waiting=schedule.waiting,
        last_at=schedule.time_of(schedule.waiting + number - 1) if is_possible else None,
    )


def read_recipients(rows: QuerySet[User]) -> Iterator[UserRecord]:
    """The rows with the columns that `check_recipient` needs, in one statement."""
    for row in rows.values(*_COLUMNS).iterator():
        strings = {name: row[name] or "" for name in ("role", "email", "phone")}
        values: dict[str, Any] = {**row, **strings}
        yield UserRecord(aud="", password_hash="", **values)


def check_recipient(message: BulkMessage, user: UserRecord, *, at: datetime) -> Literal["email", "phone"]:
    """The channel of a bulk message. Raises RecipientDeleted, RecipientBanned, NothingToSendTo or NothingToConfirm."""
    if user.deleted_at is not None:
        raise errors.RecipientDeleted
    if user.is_banned(at):
        raise errors.RecipientBanned
    if message is BulkMessage.CONFIRMATION:
        column = support_messages.confirmable_column(user)
        if column is None:
            raise errors.NothingToConfirm
        return column
    if not support_messages.can_send_recovery(user):
        raise errors.NothingToSendTo
    return "email"


def read_schedule(*, at: datetime) -> Schedule:
    """The schedule of further messages. Runs two statements."""
    [level] = [level for level in read_levels() if (level.quota, level.sender) == ("email_sent", "operators")]
    return Schedule(level=level, at=at, waiting=queued_jobs.count_waiting(_TASK))


def enqueue(
    message: BulkMessage,
    user_id: UUID,
    *,
    schedule: Schedule,
    actor: Administrator,
    caller: Caller,
    at: datetime,
    started_at: datetime | None = None,
) -> None:
    """Store a job that sends the message to a user at the next time of the schedule.

    `started_at` is the time at which the operator started the action, `at` if None: a message after it is the same one,
    so that a batch that is sent twice, and a job that runs twice, send one. Raises UserNotFound, EmailRateExceeded and
    the errors of `check_recipient`.
    """
    check_recipient(message, queries.require(user_id), at=at)
    arguments = {
        "message": str(message),
        "user_id": str(user_id),
        "actor_id": str(actor.id),
        "reason": actor.reason,
        "started_at": (started_at or at).isoformat(),
        "caller": {
            "address": caller.address,
            "request_id": caller.request_id,
            "audience": caller.audience,
            "link_base": caller.link_base,
            "session_id": str(caller.audit.session_id) if caller.audit.session_id else None,
        },
    }
    run_at = schedule.take()
    send.schedule(arguments, priority=jobs.BULK_SOURCE_PRIORITY, run_at=run_at)


@jobs.task(name=_TASK, retry_delays=[_HOUR] * _MAX_WAITS)
def send(
    run: jobs.Run,
    /,
    *,
    message: str,
    user_id: str,
    actor_id: str,
    reason: str,
    started_at: str,
    caller: Mapping[str, Any],
) -> None:
    """Send the message, unless its recipient or the operator may no longer get or send it."""
    at = timezone.now()
    user, operator = queries.get(UUID(user_id)), queries.get(UUID(actor_id))
    fields = {"message": message, "user_id": user_id, "actor_id": actor_id}
    if operator is None or not _may_send(operator, at=at):
        logger.warning("bulk message not sent: the operator has lost access", extra=fields)
        return
    actor = Administrator(
        role=operator.role, user_id=operator.id, address=operator.email or operator.phone, reason=reason
    )
    if user is None:
        return
    if not _may_send_to(user, operator):
        logger.warning("bulk message not sent: the operator may not change the account", extra=fields)
        return
    if _was_sent(BulkMessage(message), user, since=datetime.fromisoformat(started_at)):
        logger.info("bulk message not sent: the user has got it", extra=fields)
        return
    try:
        check_recipient(BulkMessage(message), user, at=at)
        SERVICES[BulkMessage(message)](user.id, actor=actor, caller=_caller(caller), at=at, is_bulk=True)
    except (EmailRateExceeded, SmsRateExceeded) as error:
        wait = error.retry_after or math.inf  # infinite for a quota of zero
        raise jobs.Retry(delay=timedelta(seconds=min(wait, _HOUR.total_seconds()))) from None
    except ApiError as error:
        logger.warning("bulk message not sent", extra={**fields, "error": error.message})


def _may_send(operator: UserRecord, *, at: datetime) -> bool:
    access = operator_access.access_of(operator.role)
    return access is not None and access >= Access.SUPPORT and not operator.is_banned(at) and not operator.deleted_at


def _may_send_to(user: UserRecord, operator: UserRecord) -> bool:
    """False for the account of an operator, which administrators change; its role may have changed meanwhile."""
    return operator_access.access_of(user.role) is None or operator_access.access_of(operator.role) == Access.ADMIN


def _was_sent(message: BulkMessage, user: UserRecord, *, since: datetime) -> bool:
    """True if the user has got such a message since then; a further one would make its link invalid."""
    sent_at = user.confirmation_sent_at if message is BulkMessage.CONFIRMATION else user.recovery_sent_at
    return sent_at is not None and sent_at > since


def _caller(values: Mapping[str, Any]) -> Caller:
    session_id = values["session_id"]
    return Caller(
        address=values["address"],
        request_id=values["request_id"],
        audience=values["audience"],
        link_base=values["link_base"],
        audit=AuditContext(session_id=UUID(session_id) if session_id else None),
    )

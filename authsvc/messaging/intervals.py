"""Minimum intervals between messages to one address or one user.

Requests without a session are limited per group and address, with or without an account, so that a 429 reveals
nothing. Requests of a signed-in user are limited per kind and user.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from authsvc import conf
from authsvc.errors import EmailSentTooRecently, SmsSentTooRecently
from authsvc.messaging.contract import EmailKind, SmsKind
from authsvc.observability import metrics
from authsvc.security import rate_limits


class IntervalGroup(StrEnum):
    """Requests that share one interval per address."""

    CONFIRMATION = "confirmation"
    PASSWORDLESS = "passwordless"
    CHANGE = "change"


def enforce_email_interval(group: IntervalGroup, *, address: str) -> None:
    """Allow one request of this group per email address and interval. Raises EmailSentTooRecently.

    The interval starts whether or not the request then sends a message.
    """
    remaining = rate_limits.allow_once(group=group, key=address, interval=_email_interval(group))
    if remaining is not None:
        raise _sent_too_recently(EmailSentTooRecently, remaining)


def enforce_sms_interval(group: IntervalGroup, *, address: str) -> None:
    """Allow one request of this group per phone number (in digits) and interval. Raises SmsSentTooRecently."""
    remaining = rate_limits.allow_once(group=group, key=address, interval=conf.current().sms.max_frequency)
    if remaining is not None:
        raise _sent_too_recently(SmsSentTooRecently, remaining)


def check_user_interval(kind: EmailKind | SmsKind, sent_at: datetime | None, *, at: datetime) -> None:
    """Check the interval since the last message of this kind to a signed-in user.

    Raises EmailSentTooRecently, SmsSentTooRecently.
    """
    remaining = (sent_at + _user_interval(kind) - at).total_seconds() if sent_at else -1
    if remaining > 0 or (remaining == 0 and isinstance(kind, SmsKind)):
        raise _sent_too_recently(_error_for(kind), remaining)


def enforce_user_interval(kind: EmailKind | SmsKind, *, user_id: UUID) -> None:
    """Allow one message of this kind per signed-in user and interval, also across concurrent requests.

    Call it after all other checks: the interval starts here, and a mistyped address should not start it. Raises as
    `check_user_interval`.
    """
    remaining = rate_limits.allow_once(group=f"turn:{kind}", key=str(user_id), interval=_user_interval(kind))
    if remaining is not None:
        raise _sent_too_recently(_error_for(kind), remaining)


def start_change_interval(kind: EmailKind | SmsKind, *, address: str) -> None:
    """Start the interval of `/resend` for an address that a signed-in user is changing."""
    rate_limits.allow_once(group=IntervalGroup.CHANGE, key=address, interval=_user_interval(kind))


TooRecent = type[EmailSentTooRecently] | type[SmsSentTooRecently]


def _error_for(kind: EmailKind | SmsKind) -> TooRecent:
    return EmailSentTooRecently if isinstance(kind, EmailKind) else SmsSentTooRecently


def _sent_too_recently(error: TooRecent, remaining: float) -> EmailSentTooRecently | SmsSentTooRecently:
    metrics.LIMIT_REFUSALS.labels("email_frequency" if error is EmailSentTooRecently else "sms_frequency").inc()
    return error(int(remaining))


def _user_interval(kind: EmailKind | SmsKind) -> timedelta:
    return _email_interval(IntervalGroup.CHANGE) if isinstance(kind, EmailKind) else conf.current().sms.max_frequency


def _email_interval(group: IntervalGroup) -> timedelta:
    return conf.current().smtp.max_frequency or timedelta(seconds=900 if group == IntervalGroup.CONFIRMATION else 60)

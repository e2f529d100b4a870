"""Minimum intervals between messages to one address or one user.

Requests without a session are limited per group and address, with or without an account, so that a 429 reveals
nothing. Requests of a signed-in user are limited per kind and user. In addition each recipient gets one message per
interval, whatever its kind and the account that causes it. Notifications and messages of administrators do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from authsvc import conf
from authsvc.errors import EmailRateExceeded, EmailSentTooRecently, SmsRateExceeded, SmsSentTooRecently
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

    The interval starts whether or not the request then sends a message. So does that between messages to the address.
    """
    _start(group, address, _email_interval(group), recipients=(address,), kind=EmailKind.CONFIRMATION)


def enforce_sms_interval(group: IntervalGroup, *, address: str) -> None:
    """Allow one request of this group per phone number (in digits) and interval. Raises SmsSentTooRecently."""
    interval = conf.current().sms.max_frequency
    _start(group, address, interval, recipients=(address,), kind=SmsKind.CONFIRMATION)


@contextmanager
def email_interval(group: IntervalGroup, *, address: str) -> Iterator[None]:
    """As `enforce_email_interval`; a quota that refuses the body ends the intervals.

    Otherwise a client that has used up its share could keep an address from getting any message.
    """
    enforce_email_interval(group, address=address)
    with _released_by_quota((group, address), (_RECIPIENT, address)):
        yield


@contextmanager
def sms_interval(group: IntervalGroup, *, address: str) -> Iterator[None]:
    """As `email_interval`, for a phone number."""
    enforce_sms_interval(group, address=address)
    with _released_by_quota((group, address), (_RECIPIENT, address)):
        yield


@contextmanager
def recipient_interval(kind: EmailKind | SmsKind, recipient: str) -> Iterator[None]:
    """Allow one message to the recipient per interval; as `email_interval`. Raises as `check_user_interval`."""
    remaining = _start_recipients(kind, (recipient,))
    if remaining is not None:
        raise _sent_too_recently(_error_for(kind), remaining)
    with _released_by_quota((_RECIPIENT, recipient)):
        yield


def check_user_interval(kind: EmailKind | SmsKind, sent_at: datetime | None, *, at: datetime) -> None:
    """Check the interval since the last message of this kind to a signed-in user.

    Raises EmailSentTooRecently, SmsSentTooRecently.
    """
    remaining = (sent_at + _user_interval(kind) - at).total_seconds() if sent_at else -1
    if remaining > 0 or (remaining == 0 and isinstance(kind, SmsKind)):
        raise _sent_too_recently(_error_for(kind), remaining)


def enforce_user_interval(kind: EmailKind | SmsKind, *, user_id: UUID, recipients: Sequence[str]) -> None:
    """Allow one message of this kind per signed-in user and interval, also across concurrent requests.

    The recipients may not have had any message within the interval, whatever its kind and sender. Call it after all
    other checks: the intervals start here, and a mistyped address should not start them. Raises as
    `check_user_interval`.
    """
    _start(f"turn:{kind}", str(user_id), _user_interval(kind), recipients=recipients, kind=kind)


def start_recipient_intervals(kind: EmailKind | SmsKind, *recipients: str) -> bool:
    """Start the interval between messages to these recipients; False if one of them had a message within it."""
    return _start_recipients(kind, recipients) is None


def start_change_interval(kind: EmailKind | SmsKind, *, address: str) -> None:
    """Start the interval of `/resend` for an address that a signed-in user is changing."""
    rate_limits.allow_once(group=IntervalGroup.CHANGE, key=address, interval=_user_interval(kind))


@contextmanager
def _released_by_quota(*intervals: tuple[str, str]) -> Iterator[None]:
    try:
        yield
    except (EmailRateExceeded, SmsRateExceeded):
        for group, key in intervals:
            rate_limits.refund(bucket=group, key=key)
        raise


def _start(group: str, key: str, interval: timedelta, *, recipients: Sequence[str], kind: EmailKind | SmsKind) -> None:
    """Start the interval of (`group`, `key`) and those of the recipients, or none of them and raise."""
    remaining = rate_limits.allow_once(group=group, key=key, interval=interval)
    if remaining is not None:
        raise _sent_too_recently(_error_for(kind), remaining)
    remaining = _start_recipients(kind, recipients)
    if remaining is not None:
        rate_limits.refund(bucket=group, key=key)
        raise _sent_too_recently(_error_for(kind), remaining)


def _start_recipients(kind: EmailKind | SmsKind, recipients: Sequence[str]) -> float | None:
    """Start the intervals of all recipients, or none and return the remaining seconds of one."""
    started: list[str] = []
    for recipient in recipients:
        remaining = rate_limits.allow_once(group=_RECIPIENT, key=recipient, interval=_user_interval(kind))
        if remaining is not None:
            for other in started:
                rate_limits.refund(bucket=_RECIPIENT, key=other)
            return remaining
        started.append(recipient)
    return None


# The group of the interval between any two messages to a recipient.
_RECIPIENT = "recipient"

TooRecent = type[EmailSentTooRecently] | type[SmsSentTooRecently]


def _error_for(kind: EmailKind | SmsKind) -> TooRecent:
    return EmailSentTooRecently if isinstance(kind, EmailKind) else SmsSentTooRecently


def _sent_too_recently(error: TooRecent, remaining: float) -> EmailSentTooRecently | SmsSentTooRecently:
    metrics.LIMIT_REFUSALS.labels("email_frequency" if error is EmailSentTooRecently else "sms_frequency").inc()
    return error(int(remaining))


def _user_interval(kind: EmailKind | SmsKind) -> timedelta:
    if kind is SmsKind.FACTOR:
        return conf.current().mfa.phone_max_frequency
    return _email_interval(IntervalGroup.CHANGE) if isinstance(kind, EmailKind) else conf.current().sms.max_frequency


def _email_interval(group: IntervalGroup) -> timedelta:
    return conf.current().smtp.max_frequency or timedelta(seconds=900 if group == IntervalGroup.CONFIRMATION else 60)

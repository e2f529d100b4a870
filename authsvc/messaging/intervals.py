"""Minimum intervals between messages to one address or one user.

Requests without a session are limited per group and address, with or without an account, so that a 429 reveals
nothing. Requests of a signed-in user are limited per type and user, and per type and recipient, whichever account sends
them. Over all types a recipient gets one message per interval, of which three may come at once: a confirmation, a link
and a change. Notifications and messages of administrators do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from authsvc import conf
from authsvc.errors import EmailRateExceeded, EmailSentTooRecently, HookError, SmsRateExceeded, SmsSentTooRecently
from authsvc.messaging.contract import EmailType, SmsType
from authsvc.observability import metrics
from authsvc.security import rate_limits

_BURST = 3
"""Messages of different types that a recipient may get at once."""
_LIFE = timedelta(days=1)


class IntervalGroup(StrEnum):
    """Requests that share one interval per address."""

    CONFIRMATION = "confirmation"
    PASSWORDLESS = "passwordless"
    CHANGE = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interval:
    """A minimum time between two events of (`bucket`, `key`), of which `burst` may come at once."""

    bucket: str
    key: str
    length: timedelta
    burst: int = 1

    def start(self) -> float | None:
        """Start the interval if the event is allowed, and return None; else return the remaining seconds."""
        if self.burst == 1:
            return rate_limits.allow_once(group=self.bucket, key=self.key, interval=self.length)
        per_second = 1 / self.length.total_seconds()
        return rate_limits.consume(
            bucket=self.bucket, key=self.key, burst=self.burst, per_second=per_second, life=max(_LIFE, self.length)
        )


def email_interval(group: IntervalGroup, *, address: str) -> AbstractContextManager[None]:
    """Allow one request of this group per email address and interval. Raises EmailSentTooRecently.

    The interval starts whether or not the request then sends a message. So does that of the recipient. A hook or quota
    that refuses the body ends them: otherwise a client that has used up its share could keep an address from getting
    any message.
    """
    return _required(_email_intervals(group, address), type=EmailType.CONFIRMATION)


def sms_interval(group: IntervalGroup, *, address: str) -> AbstractContextManager[None]:
    """As `email_interval`, for a phone number in digits. Raises SmsSentTooRecently."""
    return _required(_sms_intervals(group, address), type=SmsType.CONFIRMATION)


def recipient_interval(type: EmailType | SmsType, recipient: str) -> AbstractContextManager[None]:
    """Allow one message of this type to the recipient per interval; as `email_interval`.

    Raises as `check_user_interval`.
    """
    return _required(_recipient_intervals(type, (recipient,)), type=type)


def check_user_interval(type: EmailType | SmsType, sent_at: datetime | None, *, at: datetime) -> None:
    """Check the interval since the last message of this type to a signed-in user.

    Raises EmailSentTooRecently, SmsSentTooRecently.
    """
    remaining = (sent_at + _user_interval(type) - at).total_seconds() if sent_at else -1
    if remaining > 0 or (remaining == 0 and isinstance(type, SmsType)):
        raise _sent_too_recently(_error_for(type), remaining)


def enforce_user_interval(type: EmailType | SmsType, *, user_id: UUID, recipients: Sequence[str]) -> None:
    """Allow one message of this type per interval for a signed-in user, and for each recipient.

    Holds across concurrent requests. Call it after all other checks: the intervals start here, and a mistyped address
    should not start them. Raises as `check_user_interval`.
    """
    own = _Interval(bucket=f"turn:{type}", key=str(user_id), length=_user_interval(type))
    _require([own, *_recipient_intervals(type, recipients)], type=type)


def start_recipient_intervals(type: EmailType | SmsType, *recipients: str) -> bool:
    """Start the intervals of messages to these recipients; False if one of them had a message within it."""
    return _start(_recipient_intervals(type, recipients)) is None


def start_change_interval(type: EmailType | SmsType, *, address: str) -> None:
    """Start the interval of `/resend` for an address that a signed-in user is changing."""
    rate_limits.allow_once(group=IntervalGroup.CHANGE, key=address, interval=_user_interval(type))


def _email_intervals(group: IntervalGroup, address: str) -> list[_Interval]:
    grouped = _Interval(bucket=group, key=address, length=_email_interval(group))
    return [grouped, _recipient(address, _email_interval(IntervalGroup.PASSWORDLESS))]


def _sms_intervals(group: IntervalGroup, number: str) -> list[_Interval]:
    length = conf.current().sms.max_frequency
    return [_Interval(bucket=group, key=number, length=length), _recipient(number, length)]


def _recipient_intervals(type: EmailType | SmsType, recipients: Sequence[str]) -> list[_Interval]:
    length = _user_interval(type)
    of_type = [_Interval(bucket=f"recipient:{type}", key=recipient, length=length) for recipient in recipients]
    return of_type + [_recipient(recipient, length) for recipient in recipients]


def _recipient(address: str, length: timedelta) -> _Interval:
    """The interval over all types."""
    return _Interval(bucket="recipient", key=address, length=length, burst=_BURST)


@contextmanager
def _required(intervals: Sequence[_Interval], *, type: EmailType | SmsType) -> Iterator[None]:
    _require(intervals, type=type)
    try:
        yield
    except (EmailRateExceeded, SmsRateExceeded):
        _end(intervals)
        raise
    except HookError as error:
        if error.is_refusal:  # no message was sent
            _end(intervals)
        raise


def _require(intervals: Sequence[_Interval], *, type: EmailType | SmsType) -> None:
    """Start all intervals, or none and raise the error of the first that does not allow the event."""
    remaining = _start(intervals)
    if remaining is not None:
        raise _sent_too_recently(_error_for(type), remaining)


def _start(intervals: Sequence[_Interval]) -> float | None:
    """Start all intervals, or none and return the remaining seconds of one."""
    for number, interval in enumerate(intervals):
        remaining = interval.start()
        if remaining is not None:
            _end(intervals[:number])
            return remaining
    return None


def _end(intervals: Sequence[_Interval]) -> None:
    for interval in intervals:
        rate_limits.refund(bucket=interval.bucket, key=interval.key)


TooRecent = type[EmailSentTooRecently] | type[SmsSentTooRecently]


def _error_for(type: EmailType | SmsType) -> TooRecent:
    return EmailSentTooRecently if isinstance(type, EmailType) else SmsSentTooRecently


def _sent_too_recently(error: TooRecent, remaining: float) -> EmailSentTooRecently | SmsSentTooRecently:
    metrics.LIMIT_REFUSALS.labels("email_frequency" if error is EmailSentTooRecently else "sms_frequency").inc()
    return error(int(remaining))


def _user_interval(type: EmailType | SmsType) -> timedelta:
    if type is SmsType.FACTOR:
        return conf.current().mfa.phone_max_frequency
    return _email_interval(IntervalGroup.CHANGE) if isinstance(type, EmailType) else conf.current().sms.max_frequency


def _email_interval(group: IntervalGroup) -> timedelta:
    return conf.current().smtp.max_frequency or timedelta(seconds=900 if group == IntervalGroup.CONFIRMATION else 60)

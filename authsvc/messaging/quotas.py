"""Hourly message quotas of the installation, and the share of each client.

A client, that is an address or a signed-in user, may use a tenth of a quota, at least one message. Messages of
administrators have a quota of the same size of their own, and those of operators a quota with its own setting, so that
neither uses up the messages of another. The mailer counts notifications when it delivers them.

The `check_…` functions raise the same errors as the `consume_…` functions and consume only the client's share. Requests
that send nothing call them, so that neither their responses nor the share tell them from requests that send a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from authsvc import conf
from authsvc.caller import Caller, network_key
from authsvc.errors import EmailRateExceeded, SmsRateExceeded
from authsvc.observability import metrics
from authsvc.security import rate_limits

Quota = Literal["email_sent", "sms_sent"]
"""The field of `conf.Limits` that holds the rate, which is also the bucket of the installation."""

_SHARE = 10


@dataclass(frozen=True, slots=True)
class Sender:
    """The client and the user whose shares a message counts against; none for administrators and operators."""

    keys: tuple[str, ...] = ()
    is_operator: bool = False

    @classmethod
    def of_request(cls, caller: Caller, *, user_id: UUID | None = None) -> Self:
        client = caller.client or network_key(caller.address) or "unknown"
        return cls((client,) if user_id is None else (client, f"{user_id}/"))


ADMINISTRATION = Sender()
"""Callers of the administration API."""
OPERATORS = Sender(is_operator=True)
"""Operators in the console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLevel:
    """The messages that a quota permits now."""

    quota: Quota
    sender: Literal["clients", "administrators", "operators"]
    rate: conf.Rate
    left: int
    full_at: datetime | None
    """Time at which the whole quota is available again; None if it is now, and for a rate of zero."""


def consume_email_quota(sender: Sender) -> None:
    """Consume one email of the quota. Raises EmailRateExceeded.

    The email is not returned to the quota if the request fails later.
    """
    _require("email_sent", sender, is_sent=True)


def check_email_quota(sender: Sender) -> None:
    """Raise EmailRateExceeded if the email quota, or the sender's share, is used up."""
    _require("email_sent", sender, is_sent=False)


def consume_sms_quota(sender: Sender) -> None:
    """Consume one SMS of the quota. Raises SmsRateExceeded."""
    _require("sms_sent", sender, is_sent=True)


def check_sms_quota(sender: Sender) -> None:
    """Raise SmsRateExceeded if the SMS quota, or the sender's share, is used up."""
    _require("sms_sent", sender, is_sent=False)


def read_levels() -> list[QuotaLevel]:
    """The levels of all quotas. Runs one statement."""
    limits = conf.current().limits
    quotas: tuple[Quota, ...] = ("email_sent", "sms_sent")
    buckets: list[tuple[str, Quota, Literal["clients", "administrators", "operators"], conf.Rate]] = []
    for quota in quotas:
        rate: conf.Rate = getattr(limits, quota)
        buckets.append((quota, quota, "clients", rate))
        buckets.append((_administration_bucket(quota), quota, "administrators", rate))
        buckets.append((_operators_bucket(quota), quota, "operators", limits.operator_messages))
    levels = rate_limits.read_levels({bucket: rate for bucket, _, _, rate in buckets})
    return [
        QuotaLevel(quota=quota, sender=sender, rate=rate, left=levels[bucket][0], full_at=levels[bucket][1])
        for bucket, quota, sender, rate in buckets
    ]


def buckets_of(field: str) -> tuple[str, ...]:
    """The buckets whose size depends on the rate in this field of `conf.Limits`."""
    if field == "operator_messages":
        return _operators_bucket("email_sent"), _operators_bucket("sms_sent")
    quota: Quota = "email_sent" if field == "email_sent" else "sms_sent"
    return quota, _client_bucket(quota), _administration_bucket(quota)


def _require(quota: Quota, sender: Sender, *, is_sent: bool) -> None:
    wait = _take(quota, sender, is_sent=is_sent)
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels(quota).inc()
        raise (EmailRateExceeded if quota == "email_sent" else SmsRateExceeded)(wait)


def _take(quota: Quota, sender: Sender, *, is_sent: bool) -> float | None:
    """Take one message from the shares of the sender, and from the quota if it is sent.

    Returns None, or the seconds until a message is allowed; then nothing is taken.
    """
    limits = conf.current().limits
    rate: conf.Rate = getattr(limits, quota)
    take = rate_limits.consume_event if is_sent else rate_limits.check_event
    if sender.is_operator:
        return take(bucket=_operators_bucket(quota), rate=limits.operator_messages)
    if not sender.keys:
        return take(bucket=_administration_bucket(quota), rate=rate)
    taken: list[str] = []
    wait: float | None = None
    for key in sender.keys:
        wait = rate_limits.consume_event(bucket=_client_bucket(quota), rate=_share(rate), key=key)
        if wait is not None:
            break
        taken.append(key)
    else:
        wait = take(bucket=quota, rate=rate)
    if wait is not None:
        for key in taken:
            rate_limits.refund(bucket=_client_bucket(quota), key=key)
    return wait


def _share(rate: conf.Rate) -> conf.Rate:
    """A tenth of the rate, but at least one message at once, in the window or refill time of the whole rate."""
    if not rate.events:
        return rate
    events = max(1, rate.events // _SHARE)
    return conf.Rate(events=events, over=None if rate.over is None else rate.over * (rate.events // events))


def _client_bucket(quota: Quota) -> str:
    return f"{quota}:client"


def _administration_bucket(quota: Quota) -> str:
    return f"{quota}:administration"


def _operators_bucket(quota: Quota) -> str:
    return f"{quota}:operators"

"""Hourly message quotas of the installation.

The `check_…` functions raise the same errors as the `consume_…` functions and consume nothing. Requests that send
nothing call them, so that their responses do not differ from those of requests that send a message.
"""

from __future__ import annotations

from collections.abc import Callable

from authsvc import conf
from authsvc.errors import EmailRateExceeded, SmsRateExceeded
from authsvc.observability import metrics
from authsvc.security import rate_limits


def consume_email_quota() -> None:
    """Consume one email of the quota. Raises EmailRateExceeded.

    The email is not returned to the quota if the request fails later. Under auto-confirm nothing is consumed, but a
    quota of zero still raises.
    """
    _require_email_quota(rate_limits.consume_event)


def check_email_quota() -> None:
    """Raise EmailRateExceeded if the email quota is used up."""
    _require_email_quota(rate_limits.check_event)


def consume_sms_quota() -> None:
    """Consume one SMS of the quota. Raises SmsRateExceeded.

    Under auto-confirm nothing is consumed, and a quota of zero does not raise.
    """
    _require_sms_quota(rate_limits.consume_event)


def check_sms_quota() -> None:
    """Raise SmsRateExceeded if the SMS quota is used up."""
    _require_sms_quota(rate_limits.check_event)


def _require_email_quota(wait_for: Callable[..., float | None]) -> None:
    config = conf.current()
    rate = config.limits.email_sent
    if config.mailer.autoconfirm and rate.events:
        return
    wait = wait_for(bucket="email_sent", rate=rate)
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels("email_sent").inc()
        raise EmailRateExceeded(wait)


def _require_sms_quota(wait_for: Callable[..., float | None]) -> None:
    config = conf.current()
    wait = None if config.sms.autoconfirm else wait_for(bucket="sms_sent", rate=config.limits.sms_sent)
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels("sms_sent").inc()
        raise SmsRateExceeded(wait)

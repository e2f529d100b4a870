"""One attempt to deliver one message: open it, render it, hand it to its channel, note what came of it."""

from __future__ import annotations

import logging
import re
import traceback
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

from django.db import Error as DatabaseError

from authsvc import conf, jobs
from authsvc.messaging import Email, Sms
from authsvc.observability import metrics
from authsvc.security import rate_limits
from mailer import sms
from mailer.delivery import encryption
from mailer.email import outgoing
from mailer.errors import NotDelivered
from mailer.inbox import storage
from mailer.models import Attempt, Outcome
from mailer.rendering import message_types, renderer

_MAX_REASON = 500
_MIN_SECRET = 4
"""Shorter values cannot be told from ordinary words."""
_SHORTEST_PAUSE = timedelta(seconds=5)
"""Before a gateway that has just failed is worth another attempt."""

_TOO_LATE = "; expires before another attempt"

logger = logging.getLogger(__name__)


def deliver(
    *, message_id: UUID, channel: str, kind: str, sealed: str, attempt: int, pause: timedelta | None, at: datetime
) -> None:
    """Deliver an encrypted message now. `pause` is the delay until the next attempt, None for the last one.

    Raises jobs.Retry for a failure that another attempt may overcome, and jobs.PermanentFailure if the message cannot
    be decrypted, is refused for good, expires before the next attempt, or has no next attempt. Both are logged.
    """
    record = Attempt(message_id=message_id, channel=channel, kind=kind, attempt=attempt)
    try:
        message = encryption.unseal(sealed, message_id=message_id)
    except encryption.SealBroken as error:
        _fail(record, str(error))
    record.user_id = message.user_id
    if message.expires_at is not None and message.expires_at <= at:
        _fail(record, "expired before it could be delivered")
    if attempt == 1 and _is_over_quota(message):
        # Nobody waits for a notice, so it is dropped where a mail that was asked for would have been refused.
        _note(record, Outcome.FAILED, error="email rate limit exceeded")
        logger.warning("notice not sent", extra=_fields(record))
        return
    try:
        gateway_id = _send(message, at=at)
    except Exception as error:  # noqa: BLE001  (a broken template or whatever a back end raises is a failed attempt too)
        reason = _reason(error, message)
        stack = None if isinstance(error, NotDelivered) else "".join(traceback.format_tb(error.__traceback__))
        is_final = isinstance(error, NotDelivered) and error.permanent
        if is_final or pause is None:
            _fail(record, reason, stack=stack)
        pause = _while_it_counts(pause, expires_at=message.expires_at, at=at)
        if pause is None:
            _fail(record, f"{reason[: _MAX_REASON - len(_TOO_LATE)]}{_TOO_LATE}", stack=stack)
        _note(record, Outcome.RETRY, error=reason)
        logger.warning("message not delivered yet", extra=_fields(record, stack))
        raise jobs.Retry(delay=pause) from None
    try:
        _note(record, Outcome.DELIVERED, gateway_id=_without_secrets(gateway_id, message))
    except DatabaseError:
        # The message is out. Raising would send it again.
        logger.warning("delivery not noted", extra=_fields(record), exc_info=True)


def _while_it_counts(pause: timedelta, *, expires_at: datetime | None, at: datetime) -> timedelta | None:
    """The pause, or half of the time left when the message would not outlive it; None when that is no time at all.

    So a gateway that comes back while the link or code still counts is found in time.
    """
    if expires_at is None or at + pause < expires_at:
        return pause
    half = (expires_at - at) / 2
    return half if half >= _SHORTEST_PAUSE else None


def _is_over_quota(message: Email | Sms) -> bool:
    """Whether a notice, which no request has been asked to pay for, finds the installation's quota used up."""
    if isinstance(message, Sms) or not message_types.EMAILS[message.kind].switch:
        return False
    return rate_limits.consume_event(bucket="email_sent", rate=conf.current().limits.email_sent) is not None


def _send(message: Email | Sms, *, at: datetime) -> str:
    """Returns what the gateway calls the message. Raises NotDelivered, and anything a template may raise."""
    if isinstance(message, Sms):
        return _send_text(message)
    letter = renderer.render(message.kind, message.variables)
    gateway_id = outgoing.send(message, letter, at=at)
    _keep(message, channel="email", subject=letter.subject, html=letter.html, text=letter.text)
    return gateway_id


def _send_text(message: Sms) -> str:
    body = renderer.render_sms(message.kind, message.variables)
    gateway = sms.configured()
    if gateway is None and not conf.current().mailer.dev_inbox_enabled:
        raise NotDelivered("no SMS provider")
    gateway_id = ""
    if gateway is not None:
        code = str(message.variables.get("Code", ""))
        gateway_id = gateway.send(sms.Text(to=message.to, channel=message.channel, body=body, code=code))
    _keep(message, channel=message.channel, subject="", html="", text=body)
    return gateway_id


def _keep(message: Email | Sms, *, channel: str, subject: str, html: str, text: str) -> None:
    try:
        storage.keep(channel=channel, to=message.to, subject=subject, html=html, text=text, message_id=str(message.id))
    except OSError:
        # The message is out. Raising would send it again.
        logger.warning("message not kept in the inbox", exc_info=True)


def _fail(record: Attempt, reason: str, *, stack: str | None = None) -> NoReturn:
    _note(record, Outcome.FAILED, error=reason)
    logger.error("message delivery failed", extra=_fields(record, stack))
    raise jobs.PermanentFailure from None


def _note(record: Attempt, outcome: Outcome, *, gateway_id: str = "", error: str = "") -> None:
    record.outcome, record.gateway_id, record.error = outcome, gateway_id, error
    metrics.DELIVERIES.labels(record.channel, str(outcome)).inc()
    if record.channel == "email" and outcome is not Outcome.DELIVERED:
        metrics.MAIL_ERRORS.labels(record.kind).inc()
    record.save(force_insert=True)


def _fields(record: Attempt, stack: str | None = None) -> dict[str, object]:
    fields: dict[str, object] = {
        "event": "mail.delivery" if record.channel == "email" else "sms.delivery",
        "message_id": str(record.message_id),
        "channel": record.channel,
        "mail_type": record.kind,
        "attempt": record.attempt,
        "error": record.error,
    }
    return fields | {"stack": stack} if stack else fields


def _reason(error: Exception, message: Email | Sms) -> str:
    # The text of an unexpected exception may quote anything, the user's metadata included.
    return _without_secrets(str(error), message) if isinstance(error, NotDelivered) else type(error).__name__


def _without_secrets(text: str, message: Email | Sms) -> str:
    """Gateways like to quote the recipient, and some the subject."""
    secrets = [value for value in (message.to, *message.variables.values()) if isinstance(value, str)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET:
            text = re.sub(re.escape(secret), "…", text, flags=re.IGNORECASE)
    return text[:_MAX_REASON]

"""One delivery attempt: decrypts a message, sends it through its hook or its channel, and records the outcome."""

from __future__ import annotations

import logging
import re
import traceback
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

from django.db import Error as DatabaseError

from authsvc import conf, jobs
from authsvc.messaging import DeliveryFailed, Email, Message, Sms, contract
from authsvc.observability import metrics
from authsvc.security import rate_limits
from mailer import sms
from mailer.delivery import encryption
from mailer.email import sender
from mailer.inbox import storage
from mailer.models import Attempt, AttemptOutcome
from mailer.rendering import message_types, renderer

_MAX_REASON_LENGTH = 500
_MIN_SECRET_LENGTH = 4
"""Shorter values cannot be distinguished from ordinary words."""
_MIN_RETRY_DELAY = timedelta(seconds=5)
"""Minimum delay before a failed gateway is tried again."""

_BY_HOOK = "delivered by the hook"
_EXPIRES_FIRST = "; expires before another attempt"

logger = logging.getLogger(__name__)


def deliver(
    *,
    message_id: UUID,
    channel: str,
    kind: str,
    encrypted: str,
    attempt: int,
    retry_delay: timedelta | None,
    at: datetime,
) -> None:
    """Deliver an encrypted message now. `retry_delay` is the delay until the next attempt, None for the last one.

    Raises jobs.Retry for a failure that another attempt may overcome, and jobs.PermanentFailure if the message cannot
    be decrypted, is rejected permanently, expires before the next attempt, or has no next attempt. Both are logged.
    """
    record = Attempt(message_id=message_id, channel=channel, kind=kind, attempt=attempt)
    try:
        message = encryption.decrypt(encrypted, message_id=message_id)
    except encryption.DecryptionFailed as error:
        _fail(record, str(error))
    record.user_id = message.user_id
    if message.expires_at is not None and message.expires_at <= at:
        _fail(record, "expired before it could be delivered")
    if attempt == 1 and _exceeds_quota(message):
        # No request waits for a notification, so it is dropped where a requested email would have been rejected.
        _record(record, AttemptOutcome.FAILED, error="email rate limit exceeded")
        logger.warning("notification not sent", extra=_log_fields(record))
        return
    try:
        gateway_id = _send(message, attempt=attempt, at=at)
    except Exception as error:  # noqa: BLE001  (a broken template and any error of a back end are failed attempts too)
        reason = _reason(error, message)
        stack = None if isinstance(error, DeliveryFailed) else "".join(traceback.format_tb(error.__traceback__))
        is_permanent = isinstance(error, DeliveryFailed) and error.permanent
        if is_permanent or retry_delay is None:
            _fail(record, reason, stack=stack)
        retry_delay = _delay_before_expiry(retry_delay, expires_at=message.expires_at, at=at)
        if retry_delay is None:
            _fail(record, f"{reason[: _MAX_REASON_LENGTH - len(_EXPIRES_FIRST)]}{_EXPIRES_FIRST}", stack=stack)
        _record(record, AttemptOutcome.RETRY, error=reason)
        logger.warning("message not delivered yet", extra=_log_fields(record, stack))
        raise jobs.Retry(delay=retry_delay) from None
    _record_delivery(record, gateway_id=_redact(gateway_id, message))


def _delay_before_expiry(delay: timedelta, *, expires_at: datetime | None, at: datetime) -> timedelta | None:
    """The delay, or half of the remaining time if the message would expire first; None if that is too short.

    Thus a gateway that recovers before the link or code expires is tried in time.
    """
    if expires_at is None or at + delay < expires_at:
        return delay
    half = (expires_at - at) / 2
    return half if half >= _MIN_RETRY_DELAY else None


def _exceeds_quota(message: Message) -> bool:
    """Consume the email quota for a notification, which no request has consumed; True if the quota is used up."""
    if isinstance(message, Sms) or not message_types.EMAIL_DEFINITIONS[message.type].setting:
        return False
    return rate_limits.consume_event(bucket="email_sent", rate=conf.current().limits.email_sent) is not None


def _send(message: Message, *, attempt: int, at: datetime) -> str:
    """Return the gateway's id of the message. Raises DeliveryFailed, and any error of a template."""
    if message.hook_call is not None:
        if contract.message_hook is not None and contract.message_hook.deliver(message):
            return _BY_HOOK
        if message.hook_call.other is not None:
            _send_once(message.hook_call.other, attempt=attempt, at=at)
    if isinstance(message, Sms):
        return _send_sms(message)
    rendered = renderer.render(message.type, message.variables, language=message.language)
    gateway_id = sender.send(message, rendered, at=at)
    _save_to_inbox(message, channel="email", subject=rendered.subject, html=rendered.html, text=rendered.text)
    return gateway_id


def _send_once(email: Email, *, attempt: int, at: datetime) -> None:
    """Send an email and record it, unless an earlier attempt of its job has: the email after it may have failed."""
    if Attempt.objects.filter(message_id=email.id, outcome=AttemptOutcome.DELIVERED).exists():
        return
    gateway_id = _send(email, attempt=attempt, at=at)
    record = Attempt(message_id=email.id, user_id=email.user_id, channel="email", kind=str(email.type), attempt=attempt)
    _record_delivery(record, gateway_id=_redact(gateway_id, email))


def _send_sms(message: Sms) -> str:
    body = renderer.render_sms(message.type, message.variables, language=message.language)
    if conf.current().mailer.dev_inbox_enabled:
        _save_to_inbox(message, channel=message.channel, subject="", html="", text=body)
        return ""
    gateway = sms.configured_gateway()
    if gateway is None:
        raise DeliveryFailed("no SMS provider")
    code = str(message.variables.get("Code", ""))
    channel = message.channel
    if message.hook_call is not None and not (channel == "whatsapp" and conf.current().sms.has_whatsapp):
        channel = "sms"  # a hook accepts any channel
    return gateway.send(sms.SmsMessage(to=message.to, channel=channel, body=body, code=code))


def _save_to_inbox(message: Message, *, channel: str, subject: str, html: str, text: str) -> None:
    try:
        storage.save_message(
            channel=channel, to=message.to, subject=subject, html=html, text=text, message_id=str(message.id)
        )
    except OSError:
        # The message is sent. Raising would send it again.
        logger.warning("message not saved to the inbox", exc_info=True)


def _fail(record: Attempt, reason: str, *, stack: str | None = None) -> NoReturn:
    _record(record, AttemptOutcome.FAILED, error=reason)
    logger.error("message delivery failed", extra=_log_fields(record, stack))
    raise jobs.PermanentFailure from None


def _record_delivery(record: Attempt, *, gateway_id: str) -> None:
    try:
        _record(record, AttemptOutcome.DELIVERED, gateway_id=gateway_id)
    except DatabaseError:
        # The message is sent. Raising would send it again.
        logger.warning("delivery not recorded", extra=_log_fields(record), exc_info=True)


def _record(record: Attempt, outcome: AttemptOutcome, *, gateway_id: str = "", error: str = "") -> None:
    record.outcome, record.gateway_id, record.error = outcome, gateway_id, error
    metrics.DELIVERIES.labels(record.channel, str(outcome)).inc()
    if record.channel == "email" and outcome is not AttemptOutcome.DELIVERED:
        metrics.MAIL_ERRORS.labels(record.kind).inc()
    record.save(force_insert=True)


def _log_fields(record: Attempt, stack: str | None = None) -> dict[str, object]:
    fields: dict[str, object] = {
        "event": "mail.delivery" if record.channel == "email" else "sms.delivery",
        "message_id": str(record.message_id),
        "channel": record.channel,
        "mail_type": record.kind,
        "attempt": record.attempt,
        "error": record.error,
    }
    return fields | {"stack": stack} if stack else fields


def _reason(error: Exception, message: Message) -> str:
    if isinstance(error, DeliveryFailed):
        return _redact(str(error), message)
    # The text of an unexpected exception may contain anything, including the user's metadata.
    name, status = type(error).__name__, getattr(error, "status_code", None)
    return f"{name}: status {status}" if isinstance(status, int) else name  # errors of Anymail have a status


def _redact(text: str, message: Message) -> str:
    """Remove the recipient and the variables, which gateways quote in their responses."""
    other = message.hook_call.other if message.hook_call else None
    values = [value for part in (message, other) if part for value in (part.to, *part.variables.values())]
    secrets = [value for value in values if isinstance(value, str)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_LENGTH:
            text = re.sub(re.escape(secret), "…", text, flags=re.IGNORECASE)
    # The database stores no NUL.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")[:_MAX_REASON_LENGTH]

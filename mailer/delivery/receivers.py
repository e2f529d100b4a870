"""Signal receivers: store each message as an encrypted job in the sender's transaction."""

from __future__ import annotations

import secrets
from uuid import uuid4

from authsvc import jobs
from authsvc.messaging import Email, Sms
from authsvc.observability import metrics
from mailer.delivery import encryption, tasks
from mailer.rendering import message_types

_PLACEHOLDER_BYTES = 700
"""About the size of an encrypted email."""


def enqueue_email(*, message: Email, **_: object) -> None:
    """Store a job for an email, unless it is a notification that the settings disable."""
    # Senders send every notification; the settings enable the types that are delivered.
    if message_types.is_enabled(message.type):
        _defer(message, channel="email")
        metrics.MAILS_ACCEPTED.labels(str(message.type)).inc()


def enqueue_sms(*, message: Sms, **_: object) -> None:
    """Store a job for an SMS or WhatsApp message."""
    # A hook accepts any channel. Names that a client chooses must not become labels of metrics.
    _defer(message, channel="whatsapp" if message.channel == "whatsapp" else "sms")


def enqueue_placeholder(**_: object) -> None:
    # Random digests, because updating their indexes takes time too.
    to_user, to_address = encryption.recipient_digest(uuid4()), encryption.recipient_digest(uuid4())
    tasks.discard.defer(filler=secrets.token_urlsafe(_PLACEHOLDER_BYTES), to_user=to_user, to_address=to_address)


def _defer(message: Email | Sms, *, channel: str) -> None:
    arguments = {
        "message_id": str(message.id),
        "channel": channel,
        "kind": str(message.type),
        "sealed": encryption.encrypt(message),
        "to_user": encryption.recipient_digest(message.user_id) if message.user_id else None,
        "to_address": encryption.recipient_digest(message.to),
    }
    tasks.deliver.schedule(arguments, priority=_priority(message))


def _priority(message: Email | Sms) -> int:
    if message.is_bulk:
        return jobs.BULK_PRIORITY
    # A mail server that does not answer holds a worker for each of its emails; codes by SMS would expire meanwhile.
    return jobs.URGENT_PRIORITY if isinstance(message, Sms) else 0

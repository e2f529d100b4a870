"""Signal → sealed job, stored in the transaction of the sender."""

from __future__ import annotations

import secrets
from uuid import uuid4

from authsvc.messaging import Email, Sms
from authsvc.observability import metrics
from mailer import tasks
from mailer.delivery import encryption
from mailer.rendering import message_types

_LIKE_A_LETTER = 700
"""Bytes of a sealed letter, about."""


def accept_email(*, message: Email, **_: object) -> None:
    # Senders announce every notice; whether it is sent is the operator's choice.
    if message_types.is_enabled(message.kind):
        _defer(message, channel="email")
        metrics.MAILS_ACCEPTED.labels(str(message.kind)).inc()


def accept_sms(*, message: Sms, **_: object) -> None:
    _defer(message, channel=message.channel)


def accept_decoy(**_: object) -> None:
    # Nobody's marks, because what they are found by takes its time too.
    to_user, to_address = encryption.mark(uuid4()), encryption.mark(uuid4())
    tasks.discard.defer(filler=secrets.token_urlsafe(_LIKE_A_LETTER), to_user=to_user, to_address=to_address)


def _defer(message: Email | Sms, *, channel: str) -> None:
    tasks.deliver.defer(
        message_id=str(message.id),
        channel=channel,
        kind=str(message.kind),
        sealed=encryption.seal(message),
        to_user=encryption.mark(message.user_id) if message.user_id else None,
        to_address=encryption.mark(message.to),
    )

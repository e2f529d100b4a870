"""Signal → sealed job, stored in the transaction of the sender."""

from __future__ import annotations

import secrets

from authsvc.core import metering
from authsvc.core.messaging import Email, Sms
from mailer import catalogue, sealing, tasks

_LIKE_A_LETTER = 700
"""Bytes of a sealed letter, about."""


def accept_email(*, message: Email, **_: object) -> None:
    # Senders announce every notice; whether it is sent is the operator's choice.
    if catalogue.is_enabled(message.kind):
        tasks.deliver.defer(
            message_id=str(message.id), channel="email", kind=str(message.kind), sealed=sealing.seal(message)
        )
        metering.MAILS_ACCEPTED.add(str(message.kind))


def accept_sms(*, message: Sms, **_: object) -> None:
    tasks.deliver.defer(
        message_id=str(message.id), channel=message.channel, kind=str(message.kind), sealed=sealing.seal(message)
    )


def accept_decoy(**_: object) -> None:
    tasks.discard.defer(filler=secrets.token_urlsafe(_LIKE_A_LETTER))

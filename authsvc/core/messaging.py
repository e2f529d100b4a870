"""The message contract: what a sender announces and the mailer delivers, and nothing more.

`post()` sends the signals inside the caller's transaction; the mailer's receiver stores a job in the same
transaction, so a commit is the promise of delivery and a rollback sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.dispatch import Signal

from authsvc.core import limits
from authsvc.core.errors import EmailRateExceeded, EmailSentTooRecently, UnexpectedFailure

email_requested = Signal()
"""Arguments: message: Email."""
sms_requested = Signal()
"""Arguments: message: Sms."""


class EmailKind(StrEnum):
    """Mail types of the service; the value is the wire name of `$messageType` and of the logs."""

    CONFIRMATION = "confirmation"
    INVITE = "invite"
    RECOVERY = "recovery"
    MAGIC_LINK = "magic_link"
    EMAIL_CHANGE = "email_change"
    REAUTHENTICATION = "reauthenticate"
    PASSWORD_CHANGED = "password_changed_notification"
    EMAIL_CHANGED = "email_changed_notification"
    PHONE_CHANGED = "phone_changed_notification"
    IDENTITY_LINKED = "identity_linked_notification"
    IDENTITY_UNLINKED = "identity_unlinked_notification"
    FACTOR_ENROLLED = "mfa_factor_enrolled_notification"
    FACTOR_UNENROLLED = "mfa_factor_unenrolled_notification"


class SmsKind(StrEnum):
    CONFIRMATION = "confirmation"
    PHONE_CHANGE = "phone_change"
    REAUTHENTICATION = "reauthentication"


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """One letter. `variables` are exactly the template variables of its kind (strings; `Data` is a JSON object)."""

    kind: EmailKind
    to: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    """When the code in it dies; delivery is not tried after that."""
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    """One text message; `to` is the number in digits without `+`."""

    kind: SmsKind
    to: str
    channel: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    id: UUID = field(default_factory=uuid4)


class MessageNotAccepted(UnexpectedFailure):
    """Nobody took a message: its job could not be stored."""

    def __init__(self, message: Email | Sms) -> None:
        kind = message.kind.replace("_", " ").replace("reauthenticate", "reauthentication")
        super().__init__(f"Error sending {kind} {'email' if isinstance(message, Email) else 'OTP'}")


class Group(StrEnum):
    """Requests for mail that share one interval per address, whether the address has an account or not."""

    CONFIRMATION = "confirmation"
    PASSWORDLESS = "passwordless"
    CHANGE = "change"


_DEFAULT_INTERVALS = {
    Group.CONFIRMATION: timedelta(seconds=900),
    Group.PASSWORDLESS: timedelta(seconds=60),
    Group.CHANGE: timedelta(seconds=60),
}


def space_out(group: Group, *, address: str) -> None:
    """Let one request of this group through per address and interval. Raises EmailSentTooRecently.

    Taken whatever the request then finds, so that a refusal tells nothing about the address.
    """
    interval = settings.AUTH.smtp.max_frequency or _DEFAULT_INTERVALS[group]
    remaining = limits.admit_once(group=group, key=address, interval=interval)
    if remaining is not None:
        raise EmailSentTooRecently(int(remaining))


def take_email_quota() -> None:
    """Take one mail from the hourly quota of the installation. Raises EmailRateExceeded.

    Not given back when the request fails later; under auto-confirm nothing is taken, but a quota of zero still refuses.
    """
    rate = settings.AUTH.limits.email_sent
    if rate.events == 0:
        raise EmailRateExceeded
    if not settings.AUTH.mailer.autoconfirm and not limits.take_event(bucket="email_sent", rate=rate):
        raise EmailRateExceeded


def post(*messages: Email | Sms) -> None:
    """Announce messages now, inside the caller's transaction.

    Raises MessageNotAccepted, which rolls the caller back, and RuntimeError outside a transaction: without one there is
    nothing that could take a message back.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("messages are posted inside the transaction that is their reason")
    for message in messages:
        signal = email_requested if isinstance(message, Email) else sms_requested
        try:
            signal.send(sender=type(message), message=message)
        except Exception as error:
            raise MessageNotAccepted(message) from error

"""The message contract: what a sender announces and the mailer delivers, and nothing more.

`post()` sends the signals inside the caller's transaction; the mailer's receiver stores a job in the same
transaction, so a commit is the promise of delivery and a rollback sends nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.db import transaction
from django.dispatch import Signal

from authsvc import conf
from authsvc.errors import (
    EmailRateExceeded,
    EmailSentTooRecently,
    SmsGatewayMissing,
    SmsRateExceeded,
    SmsSentTooRecently,
    UnexpectedFailure,
)
from authsvc.observability import metrics
from authsvc.security import rate_limits

logger = logging.getLogger(__name__)

email_requested = Signal()
"""Arguments: message: Email."""
sms_requested = Signal()
"""Arguments: message: Sms."""
decoy_requested = Signal()
"""No arguments: store what a message would have stored, and send nothing."""


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
    EMAIL_TAKEN = "email_taken_notification"
    IDENTITY_LINKED = "identity_linked_notification"
    IDENTITY_UNLINKED = "identity_unlinked_notification"
    FACTOR_ENROLLED = "mfa_factor_enrolled_notification"
    FACTOR_UNENROLLED = "mfa_factor_unenrolled_notification"
    RECOVERY_CODE_USED = "mfa_recovery_code_used_notification"


class SmsKind(StrEnum):
    CONFIRMATION = "confirmation"
    PHONE_CHANGE = "phone_change"
    REAUTHENTICATION = "reauthentication"
    FACTOR = "mfa"


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
    """Nobody took a message: its job could not be stored, or its recipient's host is one that nothing is sent to."""

    def __init__(self, kind: EmailKind | SmsKind) -> None:
        name = kind.replace("_", " ").replace("reauthenticate", "reauthentication")
        super().__init__(f"Error sending {name} {'email' if isinstance(kind, EmailKind) else 'OTP'}")


class PhoneVerifier(Protocol):
    """Says whether a code is the one that a gateway made and delivered by itself (PHONE_VERIFIER)."""

    def approves(self, *, phone: str, code: str) -> bool:
        """Whether `code` was sent to the digits `phone` and still counts; False also when nobody can tell.

        Asks over the network, so not inside a transaction.
        """


class Group(StrEnum):
    """Requests for messages that share one interval per address, whether the address has an account or not."""

    CONFIRMATION = "confirmation"
    PASSWORDLESS = "passwordless"
    CHANGE = "change"


def space_out(group: Group, *, address: str) -> None:
    """Let one request of this group through per address and interval. Raises EmailSentTooRecently.

    Taken whatever the request then finds, so that a refusal tells nothing about the address.
    """
    remaining = rate_limits.allow_once(group=group, key=address, interval=_interval(group))
    if remaining is not None:
        metrics.LIMIT_REFUSALS.add("email_frequency")
        raise EmailSentTooRecently(int(remaining))


def space_out_sms(group: Group, *, address: str) -> None:
    """As `space_out`, for text messages; `address` is the number in digits. Raises SmsSentTooRecently."""
    remaining = rate_limits.allow_once(group=group, key=address, interval=conf.current().sms.max_frequency)
    if remaining is not None:
        metrics.LIMIT_REFUSALS.add("sms_frequency")
        raise SmsSentTooRecently(int(remaining))


def take_email_quota() -> None:
    """Take one mail from the hourly quota of the installation. Raises EmailRateExceeded.

    Not given back when the request fails later; under auto-confirm nothing is taken, but a quota of zero still refuses.
    """
    _ask_email_quota(rate_limits.consume_event)


def require_email_quota() -> None:
    """Raise EmailRateExceeded where `take_email_quota` would, and take nothing.

    For requests that turn out to send nothing: what they are answered must not tell them from those that do.
    """
    _ask_email_quota(rate_limits.check_event)


def take_sms_quota() -> None:
    """Take one text message from the hourly quota of the installation. Raises SmsRateExceeded.

    Under auto-confirm nothing is taken, and a quota of zero does not refuse either.
    """
    _ask_sms_quota(rate_limits.consume_event)


def require_sms_quota() -> None:
    """Raise SmsRateExceeded where `take_sms_quota` would, and take nothing; as `require_email_quota`."""
    _ask_sms_quota(rate_limits.check_event)


def _ask_email_quota(ask: Callable[..., float | None]) -> None:
    config = conf.current()
    rate = config.limits.email_sent
    if config.mailer.autoconfirm and rate.events:
        return
    wait = ask(bucket="email_sent", rate=rate)
    if wait is not None:
        metrics.LIMIT_REFUSALS.add("email_sent")
        raise EmailRateExceeded(wait)


def _ask_sms_quota(ask: Callable[..., float | None]) -> None:
    config = conf.current()
    wait = None if config.sms.autoconfirm else ask(bucket="sms_sent", rate=config.limits.sms_sent)
    if wait is not None:
        metrics.LIMIT_REFUSALS.add("sms_sent")
        raise SmsRateExceeded(wait)


def require_sms_gateway() -> None:
    """Raise SmsGatewayMissing, and log why, when the settings show that nobody could deliver a text message."""
    config = conf.current()
    if not config.sms.is_usable and not config.mailer.dev_inbox_enabled:
        logger.error("no text message can be sent", extra={"event": "sms.gateway", "error": config.sms.problem})
        raise SmsGatewayMissing


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
        except RecursionError:
            raise  # data of the caller's that nests too deep
        except Exception as error:
            raise MessageNotAccepted(message.kind) from error


def post_decoy() -> None:
    """Take the time that announcing a message takes, and send nothing: for answers as if one had been sent."""
    with transaction.atomic(savepoint=False):
        decoy_requested.send(sender=None)


def refuse_soon(kind: EmailKind | SmsKind, sent_at: datetime | None, *, at: datetime) -> None:
    """The interval of a signed-in user's requests, counted from the last message of this kind to them.

    Raises EmailSentTooRecently, SmsSentTooRecently.
    """
    remaining = (sent_at + _own_interval(kind) - at).total_seconds() if sent_at else -1
    if remaining > 0 or (remaining == 0 and isinstance(kind, SmsKind)):
        raise _too_soon(kind, remaining)


def take_turn(kind: EmailKind | SmsKind, *, user_id: UUID) -> None:
    """Let one message of this kind through per signed-in user and interval, also of requests at the same time.

    To be asked last: the interval counts from here, and whoever mistyped an address should not have to wait. Raises as
    `refuse_soon`.
    """
    remaining = rate_limits.allow_once(group=f"turn:{kind}", key=str(user_id), interval=_own_interval(kind))
    if remaining is not None:
        raise _too_soon(kind, remaining)


def note_change(kind: EmailKind | SmsKind, *, address: str) -> None:
    """Let a signed-in user's change count for the interval in which it can be asked for again without a session."""
    rate_limits.allow_once(group=Group.CHANGE, key=address, interval=_own_interval(kind))


def _too_soon(kind: EmailKind | SmsKind, remaining: float) -> EmailSentTooRecently | SmsSentTooRecently:
    metrics.LIMIT_REFUSALS.add("email_frequency" if isinstance(kind, EmailKind) else "sms_frequency")
    return (EmailSentTooRecently if isinstance(kind, EmailKind) else SmsSentTooRecently)(int(remaining))


def _own_interval(kind: EmailKind | SmsKind) -> timedelta:
    return _interval(Group.CHANGE) if isinstance(kind, EmailKind) else conf.current().sms.max_frequency


def _interval(group: Group) -> timedelta:
    return conf.current().smtp.max_frequency or timedelta(seconds=900 if group == Group.CONFIRMATION else 60)

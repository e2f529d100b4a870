"""Message types, and the signals by which senders hand messages to the mailer or to a hook."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias
from uuid import UUID, uuid4

from django.db import InterfaceError, InternalError, OperationalError, transaction
from django.dispatch import Signal

from authsvc import conf, languages
from authsvc.errors import ApiError, SmsGatewayMissing, UnexpectedFailure

logger = logging.getLogger(__name__)

email_requested = Signal()
"""Arguments: message: Email."""
sms_requested = Signal()
"""Arguments: message: Sms."""
placeholder_requested = Signal()
"""No arguments. Receivers store a row of the same size as a message's, and send nothing."""

Channel: TypeAlias = Literal["email", "sms"]
"""The means of delivery for which an operator can enable a hook. WhatsApp counts as SMS."""


class EmailType(StrEnum):
    """Email types. The value is the wire name in `$messageType` and in the logs."""

    CONFIRMATION = "confirmation"
    INVITE = "invite"
    RECOVERY = "recovery"
    OPERATOR_RECOVERY = "operator_recovery"
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
    IMPERSONATION = "impersonation_notification"


class SmsType(StrEnum):
    CONFIRMATION = "confirmation"
    PHONE_CHANGE = "phone_change"
    REAUTHENTICATION = "reauthentication"
    FACTOR = "mfa"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """The call of a hook that delivers a message in place of the mailer."""

    payload: str = field(repr=False)
    """JSON object without `metadata`."""
    address: str = ""
    """Client IP address of the request that sends the message; empty if it is unknown."""
    other: Email | None = None
    """The email to the current address, if the call delivers both emails of a secure email change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """One email. `variables` are exactly the template variables of its type (strings; `Data` is a JSON object)."""

    type: EmailType
    to: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    """Expiry of the code in the message. Delivery is not attempted after it."""
    language: str = ""
    """The user's language; empty if it is unknown. Then the language of the request counts."""
    is_bulk: bool = False
    """True for one of many messages that an operator sends; it is delivered after all others."""
    hook_call: HookCall | None = None
    """Set by `send`; None if the mailer delivers the message."""
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    """One SMS or WhatsApp message. `to` is the phone number in digits without `+`."""

    type: SmsType
    to: str
    channel: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    language: str = ""
    is_bulk: bool = False
    hook_call: HookCall | None = None
    """Set by `send`; None if the mailer delivers the message."""
    id: UUID = field(default_factory=uuid4)


Message: TypeAlias = Email | Sms


class MessageNotAccepted(UnexpectedFailure):
    """A message was refused: its job could not be stored, or its recipient's host is blocked."""

    def __init__(self, type: EmailType | SmsType) -> None:
        name = type.replace("_", " ").replace("reauthenticate", "reauthentication")
        super().__init__(f"Error sending {name} {'email' if isinstance(type, EmailType) else 'OTP'}")


class DeliveryFailed(Exception):
    """A gateway or hook is unreachable or rejected the message. The text is the gateway's, if it sent one."""

    def __init__(self, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.permanent = permanent
        """True if the gateway would reject the same message again."""


class PhoneVerifier(Protocol):
    """Verifies codes that an SMS gateway generated and delivered itself."""

    def is_approved(self, *, phone: str, code: str) -> bool:
        """True if the gateway sent `code` to the digits `phone` and it is still valid; False if the gateway fails.

        Sends an HTTP request, so it must not run inside a transaction.
        """


phone_verifier: PhoneVerifier
"""Set by `AppConfig.ready()` of the mailer."""


class MessageHook(Protocol):
    """Delivers the messages of a channel in place of the mailer, if the operator has enabled its hook."""

    def is_enabled(self, channel: Channel) -> bool:
        """True if the hook delivers the messages of this channel. Runs no statement."""

    def reserve(self, channel: Channel) -> AbstractContextManager[None]:
        """Reserve a call in the block, if `send` calls the hook at once. Call it before the transaction.

        Raises an ApiError if no call is free in time.
        """

    def accept(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Take over the messages of one operation; return those to store as jobs, with their call if they have one.

        Calls the hook at once if the operator has chosen that. Raises the hook's ApiError then. Must run inside a
        transaction; runs one statement to read each user.
        """

    def deliver(self, message: Message) -> bool:
        """Call the hook for a message with a call, outside of a transaction.

        False if the mailer is to deliver the message and `hook_call.other`: the hook is disabled or has failed open.
        Raises DeliveryFailed.
        """

    def simulate(self) -> None:
        """Take as long as `accept` for a message that is stored as a job, without one."""


message_hook: MessageHook | None = None
"""Set by `AppConfig.ready()` of the hooks."""


def send(*messages: Message) -> None:
    """Hand the messages of one operation to the mailer, or to an enabled hook, inside the caller's transaction.

    Raises MessageNotAccepted, errors of a database that is away, or the error of a hook that is called at once; all
    roll the caller back. Raises RuntimeError outside a transaction, because messages could not be rolled back there.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("messages must be sent inside the transaction that causes them")
    # The delivery has no request.
    language = languages.of_request()
    accepted: Sequence[Message] = [replace(message, language=message.language or language) for message in messages]
    try:
        if message_hook is not None:
            accepted = message_hook.accept(accepted)
        for message in accepted:
            signal = email_requested if isinstance(message, Email) else sms_requested
            signal.send(sender=type(message), message=message)
    except (RecursionError, ApiError, InterfaceError, InternalError, OperationalError):
        raise  # the caller's data is nested too deeply, a hook has refused the message, or the database is away
    except Exception as error:
        raise MessageNotAccepted(messages[0].type) from error


def reserved(channel: Channel | None) -> AbstractContextManager[None]:
    """Reserve the call of the hook for a transaction that sends a message of this channel; None: it sends none.

    Enter it before the transaction, except for notifications, which never wait for the hook. Does nothing unless the
    hook is called at once. Raises the error of a hook without a free call.
    """
    if message_hook is None or channel is None:
        return contextlib.nullcontext()
    return message_hook.reserve(channel)


def simulate_send() -> None:
    """Take as long as sending one message, and send nothing, so that response times do not reveal the difference."""
    with transaction.atomic(savepoint=False):
        if message_hook is not None:
            message_hook.simulate()
        placeholder_requested.send(sender=None)


def is_hooked(channel: Channel) -> bool:
    """True if a hook delivers the messages of this channel in place of the mailer."""
    return message_hook is not None and message_hook.is_enabled(channel)


def has_verifying_gateway() -> bool:
    """True if the gateway generates and checks the codes itself; with a hook or the development inbox none does."""
    config = conf.current()
    is_used = config.sms.provider == "twilio_verify" and not config.mailer.dev_inbox_enabled
    return is_used and not is_hooked("sms")


def check_sms_gateway() -> None:
    """Raise SmsGatewayMissing, and log the reason, if neither a hook nor a configured gateway can deliver an SMS."""
    config = conf.current()
    if not config.sms.is_usable and not config.mailer.dev_inbox_enabled and not is_hooked("sms"):
        logger.error("no SMS can be sent", extra={"event": "sms.gateway", "error": config.sms.problem})
        raise SmsGatewayMissing

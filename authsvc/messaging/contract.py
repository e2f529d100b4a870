"""Message types, and the signals by which senders hand messages to the mailer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID, uuid4

from django.db import transaction
from django.dispatch import Signal

from authsvc import conf, languages
from authsvc.errors import SmsGatewayMissing, UnexpectedFailure

logger = logging.getLogger(__name__)

email_requested = Signal()
"""Arguments: message: Email."""
sms_requested = Signal()
"""Arguments: message: Sms."""
placeholder_requested = Signal()
"""No arguments. Receivers store a row of the same size as a message's, and send nothing."""


class EmailKind(StrEnum):
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


class SmsKind(StrEnum):
    CONFIRMATION = "confirmation"
    PHONE_CHANGE = "phone_change"
    REAUTHENTICATION = "reauthentication"
    FACTOR = "mfa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """One email. `variables` are exactly the template variables of its kind (strings; `Data` is a JSON object)."""

    kind: EmailKind
    to: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    """Expiry of the code in the message. Delivery is not attempted after it."""
    language: str = ""
    """The user's language; empty if it is unknown. Then the language of the request counts."""
    is_bulk: bool = False
    """True for one of many messages that an operator sends; it is delivered after all others."""
    id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    """One SMS or WhatsApp message. `to` is the phone number in digits without `+`."""

    kind: SmsKind
    to: str
    channel: str
    variables: Mapping[str, Any] = field(repr=False)
    user_id: UUID | None = None
    expires_at: datetime | None = None
    language: str = ""
    is_bulk: bool = False
    id: UUID = field(default_factory=uuid4)


class MessageNotAccepted(UnexpectedFailure):
    """A message was refused: its job could not be stored, or its recipient's host is blocked."""

    def __init__(self, kind: EmailKind | SmsKind) -> None:
        name = kind.replace("_", " ").replace("reauthenticate", "reauthentication")
        super().__init__(f"Error sending {name} {'email' if isinstance(kind, EmailKind) else 'OTP'}")


class PhoneVerifier(Protocol):
    """Verifies codes that an SMS gateway generated and delivered itself."""

    def is_approved(self, *, phone: str, code: str) -> bool:
        """True if the gateway sent `code` to the digits `phone` and it is still valid; False if the gateway fails.

        Sends an HTTP request, so it must not run inside a transaction.
        """


phone_verifier: PhoneVerifier
"""Set by `AppConfig.ready()` of the mailer."""


def send(*messages: Email | Sms) -> None:
    """Hand messages to the mailer inside the caller's transaction.

    Raises MessageNotAccepted, which rolls the caller back, and RuntimeError outside a transaction, because the messages
    could not be rolled back there.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("messages must be sent inside the transaction that causes them")
    for message in messages:
        signal = email_requested if isinstance(message, Email) else sms_requested
        # The delivery has no request.
        in_language = replace(message, language=message.language or languages.of_request())
        try:
            signal.send(sender=type(message), message=in_language)
        except RecursionError:
            raise  # the caller's data is nested too deeply
        except Exception as error:
            raise MessageNotAccepted(message.kind) from error


def simulate_send() -> None:
    """Take as long as sending one message, and send nothing, so that response times do not reveal the difference."""
    with transaction.atomic(savepoint=False):
        placeholder_requested.send(sender=None)


def has_verifying_gateway() -> bool:
    """True if the gateway generates and checks the codes itself; with the development inbox no gateway is used."""
    config = conf.current()
    return config.sms.provider == "twilio_verify" and not config.mailer.dev_inbox_enabled


def check_sms_gateway() -> None:
    """Raise SmsGatewayMissing, and log the reason, if no configured gateway can deliver an SMS."""
    config = conf.current()
    if not config.sms.is_usable and not config.mailer.dev_inbox_enabled:
        logger.error("no SMS can be sent", extra={"event": "sms.gateway", "error": config.sms.problem})
        raise SmsGatewayMissing

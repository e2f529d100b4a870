"""Email and SMS as the senders see them: message types, the sending contract, quotas and intervals.

`send()` fires signals inside the caller's transaction. The mailer's receiver stores a job in the same transaction, so
a commit guarantees delivery and a rollback sends nothing. A hook can take over the delivery (`contract.MessageHook`).
"""

from __future__ import annotations

from authsvc.messaging.contract import (
    Channel,
    DeliveryFailed,
    Email,
    EmailType,
    HookCall,
    Message,
    MessageHook,
    MessageNotAccepted,
    PhoneVerifier,
    Sms,
    SmsType,
    check_sms_gateway,
    email_requested,
    is_hooked,
    placeholder_requested,
    reserved,
    send,
    simulate_send,
    sms_requested,
)
from authsvc.messaging.intervals import (
    IntervalGroup,
    check_user_interval,
    email_interval,
    enforce_user_interval,
    recipient_interval,
    sms_interval,
    start_change_interval,
    start_recipient_intervals,
)
from authsvc.messaging.quotas import (
    ADMINISTRATION,
    OPERATORS,
    Sender,
    check_email_quota,
    check_sms_quota,
    consume_email_quota,
    consume_sms_quota,
)

__all__ = [
    "ADMINISTRATION",
    "OPERATORS",
    "Channel",
    "DeliveryFailed",
    "Email",
    "EmailType",
    "HookCall",
    "IntervalGroup",
    "Message",
    "MessageHook",
    "MessageNotAccepted",
    "PhoneVerifier",
    "Sender",
    "Sms",
    "SmsType",
    "check_email_quota",
    "check_sms_gateway",
    "check_sms_quota",
    "check_user_interval",
    "consume_email_quota",
    "consume_sms_quota",
    "email_interval",
    "email_requested",
    "enforce_user_interval",
    "is_hooked",
    "placeholder_requested",
    "recipient_interval",
    "reserved",
    "send",
    "simulate_send",
    "sms_interval",
    "sms_requested",
    "start_change_interval",
    "start_recipient_intervals",
]

"""Codes by text message: what must be so before one is sent, and sending it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction

from authsvc.core import crypto, messaging
from authsvc.core.messaging import Sms, SmsKind
from tokens.models import TokenType
from tokens.services import one_time_tokens

TEST_MESSAGE = "test-otp"
"""Stands for the message id where a number has a fixed code and nothing leaves."""


def admit(phone: str, *, at: datetime) -> None:
    """Take a text message from the quota, before the transaction. Raises SmsRateExceeded, SmsGatewayMissing."""
    if settings.AUTH.sms.test_code(phone, at=at) is None:
        messaging.take_sms_quota()
        messaging.require_sms_gateway()


def feign(phone: str, *, at: datetime) -> None:
    """The refusals of `admit` for a request that turns out to send nothing; takes nothing."""
    if settings.AUTH.sms.test_code(phone, at=at) is None:
        messaging.require_sms_quota()
        messaging.require_sms_gateway()


def send_code(*, user_id: UUID, phone: str, kind: SmsKind, token_type: TokenType, channel: str, at: datetime) -> str:
    """Store a code for `phone` and announce the message that carries it; returns the message's id.

    Joins the caller's transaction. A number with a fixed code gets that one, and no message.
    """
    fixed = settings.AUTH.sms.test_code(phone, at=at)
    code = fixed or crypto.random_code(digits=settings.AUTH.sms.otp_length)
    with transaction.atomic(savepoint=False):
        one_time_tokens.store_code(user_id=user_id, token_type=token_type, identifier=phone, code=code, at=at)
        if fixed:
            return TEST_MESSAGE
        message = Sms(
            kind=kind,
            to=phone,
            channel=channel,
            variables={"Code": code},
            user_id=user_id,
            expires_at=at + settings.AUTH.sms.otp_exp,
        )
        messaging.post(message)
    return str(message.id)

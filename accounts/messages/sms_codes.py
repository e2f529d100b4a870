"""Sends one-time codes by SMS or WhatsApp, and checks the quota before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from accounts.messages import queries
from accounts.users.records import UserRecord
from authsvc import audit, conf, languages, messaging
from authsvc.audit import Action, PendingEntry
from authsvc.caller import Caller
from authsvc.messaging import Sender, Sms, SmsType
from authsvc.security import crypto
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import NewToken, OneTimeSecret

TEST_MESSAGE_ID = "test-otp"
"""The message id for a phone number with a test code, to which nothing is sent."""


def reserve_sms(phone: str, *, sender: Sender, at: datetime) -> None:
    """Count an SMS against the quota and the sender's share, before the transaction.

    Raises SmsRateExceeded, SmsGatewayMissing.
    """
    if conf.current().sms.test_code(phone, at=at) is None:
        messaging.consume_sms_quota(sender)
        messaging.check_sms_gateway()


def check_sms(phone: str, *, sender: Sender, at: datetime) -> None:
    """Raise the errors of `reserve_sms` for a request that sends nothing; counts only the share."""
    if conf.current().sms.test_code(phone, at=at) is None:
        messaging.check_sms_quota(sender)
        messaging.check_sms_gateway()


def send_code(
    *,
    user_id: UUID,
    phone: str,
    type: SmsType,
    token_type: TokenType,
    channel: str,
    language: str,
    at: datetime,
    withheld: bool = False,
    is_bulk: bool = False,
) -> str:
    """Store a code for `phone` and send it; returns the message's id.

    Must run inside a transaction. A phone number with a test code gets that code and no message. A `withheld` code is
    not sent; the returned id then belongs to no message. `language` is that of the user, empty if it is unknown.
    """
    code = _code(phone, at=at)
    with transaction.atomic(savepoint=False):
        one_time_tokens.store_code(user_id=user_id, token_type=token_type, identifier=phone, code=code, at=at)
        return _post(
            code,
            type=type,
            phone=phone,
            channel=channel,
            user_id=user_id,
            language=language,
            at=at,
            withheld=withheld,
            is_bulk=is_bulk,
        )


def send_sign_up_code(
    user: UserRecord, *, channel: str, traits: Mapping[str, str], caller: Caller, at: datetime
) -> str:
    """Send a code that confirms the user's phone, with an audit entry; as `send_code`."""
    entry = audit.prepare_entry(Action.CONFIRMATION_REQUESTED, actor=user, caller=caller, at=at, traits=traits)
    return _send_with_entry(user, entry, TokenType.CONFIRMATION, sent_at="", channel=channel, at=at)


def send_sign_in_code(
    user: UserRecord, *, channel: str, traits: Mapping[str, str] | None = None, caller: Caller, at: datetime
) -> str:
    """Send a code that signs in, or confirms the phone again; as `send_sign_up_code`.

    The code does not replace the link of a pending invitation.
    """
    entry = audit.prepare_entry(Action.RECOVERY_REQUESTED, actor=user, caller=caller, at=at, traits=traits)
    token_type = TokenType.RECOVERY if user.has_pending_invitation else TokenType.CONFIRMATION
    return _send_with_entry(user, entry, token_type, sent_at="confirmation_sent_at", channel=channel, at=at)


def simulate_send(phone: str, *, at: datetime) -> str:
    """Run the statements of `send_sign_in_code` for a phone without an account; returns an id of no message."""
    token = _token(_code(phone, at=at), TokenType.CONFIRMATION, phone=phone, at=at)
    with transaction.atomic(savepoint=False):
        entry = PendingEntry(id=uuid4(), payload="{}")
        queries.store_secret_request(user_id=uuid4(), sent_at="confirmation_sent_at", entry=entry, token=token)
        messaging.simulate_send()
    return str(uuid4())


def _send_with_entry(
    user: UserRecord, entry: PendingEntry, token_type: TokenType, *, sent_at: str, channel: str, at: datetime
) -> str:
    code = _code(user.phone, at=at)
    token = _token(code, token_type, phone=user.phone, at=at)
    with transaction.atomic(savepoint=False):
        queries.store_secret_request(user_id=user.id, sent_at=sent_at, entry=entry, token=token)
        return _post(
            code,
            type=SmsType.CONFIRMATION,
            phone=user.phone,
            channel=channel,
            user_id=user.id,
            language=languages.of_user(user.user_metadata),
            at=at,
        )


def _code(phone: str, *, at: datetime) -> str:
    sms = conf.current().sms
    return sms.test_code(phone, at=at) or crypto.generate_code(digits=sms.otp_length)


def _token(code: str, token_type: TokenType, *, phone: str, at: datetime) -> NewToken:
    secret = OneTimeSecret(code=code, link_token="")
    return one_time_tokens.hash_secret(secret, token_type=token_type, identifier=phone, at=at)


def _post(
    code: str,
    *,
    type: SmsType,
    phone: str,
    channel: str,
    user_id: UUID,
    language: str,
    at: datetime,
    withheld: bool = False,
    is_bulk: bool = False,
) -> str:
    """Send a code; returns the id of the message. Test numbers and withheld codes get no message."""
    if conf.current().sms.test_code(phone, at=at):
        return TEST_MESSAGE_ID
    message = Sms(
        type=type,
        to=phone,
        channel=channel,
        variables={"Code": code},
        user_id=user_id,
        expires_at=at + conf.current().sms.otp_exp,
        language=language,
        is_bulk=is_bulk,
    )
    if withheld:
        messaging.simulate_send()
    else:
        messaging.send(message)
    return str(message.id)

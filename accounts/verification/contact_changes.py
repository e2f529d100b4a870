"""Changes of email and phone: started with a message, completed when the new email or phone is verified."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.messages import confirmation_emails, notification_emails, sms_codes
from accounts.models import Identity, User
from accounts.users import account_creation, updates
from accounts.users.records import UserRecord
from authsvc import conf, languages, messaging
from authsvc.caller import Caller
from authsvc.messaging import SmsType
from tokens.flows import flow_states
from tokens.flows.pkce import Challenge
from tokens.models import TokenType
from tokens.one_time import one_time_tokens


def start_email_change(
    user: UserRecord,
    *,
    email: str,
    owner: UserRecord | None = None,
    challenge: Challenge | None,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> UUID:
    """Store the new address as pending and send a link and code to it.

    With secure email change the present address gets a link as well.

    An `owner` who has the address already gets a notification instead of the link. Must run inside a transaction.
    Returns the id of the message to the new address.
    """
    pkce = challenge is not None
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user.id).update(
            email_change=email, email_change_sent_at=at, email_change_confirm_status=0, updated_at=at
        )
        if challenge is not None:
            flow_states.start_email_flow(
                challenge=challenge, provider_type="email_change", method="email_change", user_id=user.id, at=at
            )
        pending = dataclasses.replace(user, email_change=email)
        messages = []
        if user.verified_email and conf.current().mailer.secure_email_change_enabled:
            secret = one_time_tokens.issue(
                user_id=user.id, token_type=TokenType.EMAIL_CHANGE_CURRENT, identifier=user.email, pkce=pkce, at=at
            )
            messages.append(
                confirmation_emails.build_email_change(
                    pending, to=user.email, secret=secret, redirect_to=redirect_to, caller=caller, at=at
                )
            )
        else:
            one_time_tokens.delete(user_id=user.id, token_type=TokenType.EMAIL_CHANGE_CURRENT)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.EMAIL_CHANGE_NEW, identifier=email, pkce=pkce, at=at
        )
        if owner is not None:
            messages.append(notification_emails.email_taken(owner))
        else:
            messages.append(
                confirmation_emails.build_email_change(
                    pending, to=email, secret=secret, redirect_to=redirect_to, caller=caller, at=at
                )
            )
        messaging.send(*messages)
    return messages[-1].id


def start_phone_change(user: UserRecord, *, phone: str, channel: str, is_taken: bool = False, at: datetime) -> str:
    """Store the new phone as pending and send a code to it; returns the message's id. Must run inside a transaction.

    For a phone that `is_taken` by another user the code is withheld, so that the response does not reveal it.
    """
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user.id).update(phone_change=phone, phone_change_sent_at=at, updated_at=at)
        return sms_codes.send_code(
            user_id=user.id,
            phone=phone,
            type=SmsType.PHONE_CHANGE,
            token_type=TokenType.PHONE_CHANGE,
            channel=channel,
            language=languages.of_user(user.user_metadata),
            at=at,
            withheld=is_taken,
        )


def confirm_first_address(user: UserRecord, *, at: datetime) -> bool:
    """Record the first of two confirmations; False when it is the second one, or only one is needed.

    Of two concurrent confirmations one is recorded as the first; the other is the second.
    """
    config = conf.current().mailer
    # Auto-confirm is about the addresses of new accounts; it never replaces the consent of the present address.
    if not config.secure_email_change_enabled or not user.verified_email:
        return False
    # An imported row may contain NULL, which means 0.
    unconfirmed = User.objects.filter(id=user.id).exclude(email_change_confirm_status=1)
    return bool(unconfirmed.update(email_change_confirm_status=1, updated_at=at))


def complete_email_change(user: UserRecord, *, email: str, at: datetime, **columns: Any) -> None:
    """Make `email` the user's verified address, and update the email identity; writes `columns` as well.

    Codes of PKCE flows become invalid, because links to the former address may have led to them. Must run inside a
    transaction. Raises EmailExists when another user has the address.
    """
    changes: dict[str, Any] = {
        "email": email,
        "email_change": "",
        "email_change_confirm_status": 0,
        "is_anonymous": False,
        **updates.named_providers(user, "email"),
        "updated_at": at,
        **columns,
    }
    if user.email_confirmed_at is None:
        changes["email_confirmed_at"] = at
        changes["raw_user_meta_data"] = updates.merged_json("raw_user_meta_data", {"email_verified": True})
    _write(user, changes, taken=errors.EmailExists)
    flow_states.delete_codes(user.id)
    _verify_own_identity(user, provider="email", data={"email": email, "email_verified": True}, at=at)
    if user.email and user.email != email:
        messaging.send(notification_emails.email_changed(user, email=email))


def complete_phone_change(user: UserRecord, *, phone: str, at: datetime, **columns: Any) -> None:
    """Make `phone` the user's verified phone, as `complete_email_change`. Raises PhoneExists."""
    changes: dict[str, Any] = {
        "phone": phone,
        "phone_change": "",
        "phone_confirmed_at": at,
        "is_anonymous": False,
        **updates.named_providers(user, "phone"),
        "updated_at": at,
        **columns,
    }
    _write(user, changes, taken=errors.PhoneExists)
    is_created = _verify_own_identity(user, provider="phone", data={"phone": phone, "phone_verified": True}, at=at)
    if user.email and user.phone and user.phone != phone:
        messaging.send(notification_emails.phone_changed(user, phone=phone))
    if user.email and is_created:
        messaging.send(notification_emails.identity_linked(user, provider="phone"))


def _write(user: UserRecord, changes: dict[str, Any], *, taken: type[errors.EmailExists | errors.PhoneExists]) -> None:
    try:
        User.objects.filter(id=user.id).update(**changes)
    except IntegrityError:
        raise taken from None


def _verify_own_identity(user: UserRecord, *, provider: str, data: dict[str, Any], at: datetime) -> bool:
    """Update the user's email or phone identity with `data`, or create it; returns whether it was created."""
    existing = Identity.objects.filter(user_id=user.id, provider=provider)
    if existing.update(identity_data=updates.merged_json("identity_data", data), updated_at=at):
        return False
    unverified = {"email_verified": False, "phone_verified": False}
    identity_data = {"sub": str(user.id), **unverified, **data}
    account_creation.add_identity(user.id, provider=provider, subject=str(user.id), identity_data=identity_data, at=at)
    return True

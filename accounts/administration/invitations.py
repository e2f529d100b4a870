"""Invitations: an account for an email address, and the email with the link that confirms it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors
from accounts.identities import account_claiming
from accounts.messages import confirmation_emails, recipients
from accounts.models import User
from accounts.users import account_creation, creation_hook, identifiers, queries, user_events
from accounts.users.records import UserRecord
from authsvc import audit, languages, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType, Sender
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import OneTimeSecret
from tokens.sessions import revocation


def invite(
    *,
    email: str,
    data: Mapping[str, Any],
    redirect_to: str,
    sender: Sender = messaging.ADMINISTRATION,
    is_bulk: bool = False,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> UserRecord:
    """Send an invitation by email. A repeated invitation replaces the former link.

    Possible while sign-ups are closed. `data` is the metadata of a new account and does not touch one that exists. A
    bulk message is delivered after all others. Raises the errors of an address, EmailExists for a confirmed account,
    and the errors of sending an email.
    """
    address = identifiers.email(email)
    existing = find_unconfirmed(address, audience=caller.audience)
    recipients.reserve_email(address, type=EmailType.INVITE, sender=sender)
    send = partial(
        _invite, address, data=data, redirect_to=redirect_to, is_bulk=is_bulk, actor=actor, caller=caller, at=at
    )
    try:
        return send(existing)
    except IntegrityError:
        existing = find_unconfirmed(address, audience=caller.audience)  # another request has created the account
        if existing is None:
            raise
    return send(existing)


def _invite(
    address: str,
    existing: UserRecord | None,
    *,
    data: Mapping[str, Any],
    redirect_to: str,
    is_bulk: bool,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> UserRecord:
    """Create or reset the account, and send the email, in one transaction; returns the user."""
    new_user_id = check_new_user(address, existing, data=data, caller=caller)
    with messaging.reserved(None if is_bulk else "email"), transaction.atomic(durable=True):
        user, secret = prepare(address, existing, data=data, new_user_id=new_user_id, actor=actor, caller=caller, at=at)
        email = confirmation_emails.build(
            EmailType.INVITE, user, secret=secret, redirect_to=redirect_to, caller=caller, at=at
        )
        messaging.send(replace(email, is_bulk=is_bulk, language=email.language or languages.default()))
    if new_user_id is not None:
        creation_hook.announce(user, caller=caller)
    return user


def check_new_user(
    address: str, existing: UserRecord | None, *, data: Mapping[str, Any], caller: Caller
) -> UUID | None:
    """Ask the hook for new users; returns the id for the account, None if `existing` is used.

    Call it before the transaction. Raises HookError.
    """
    if existing is not None and not existing.has_unproven_claim("email"):
        return None
    return creation_hook.check(email=address, provider="email", user_metadata=data, caller=caller)


def find_unconfirmed(address: str, *, audience: str) -> UserRecord | None:
    """The unconfirmed account with this email address, None when there is no account.

    It may be that of a sign-up in another audience, because addresses are unique over audiences. Raises EmailExists for
    a confirmed account, and for an invited one of another audience.
    """
    user = queries.find_by("email", address, aud=None)
    if user is None:
        return None
    is_invited_elsewhere = user.aud != audience and user.has_pending_invitation
    if user.email_confirmed_at is not None or is_invited_elsewhere:
        raise errors.EmailExists
    return user


def prepare(
    address: str,
    existing: UserRecord | None,
    *,
    data: Mapping[str, Any],
    new_user_id: UUID | None,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> tuple[UserRecord, OneTimeSecret]:
    """Create the invited account, or reset the account `existing`; return it with the secret that confirms it.

    Must run inside a transaction. Raises EmailExists when `existing` has been confirmed meanwhile, and IntegrityError
    when another account has taken the address.
    """
    timestamps: dict[str, Any] = {"invited_at": at, "confirmation_sent_at": at}
    with transaction.atomic(savepoint=False):
        existing = release_claim(existing, at=at)
        if existing is None:
            user = account_creation.create_user_as_administrator(
                email=address,
                password_hash="",
                metadata=data,
                audience=caller.audience,
                at=at,
                id=new_user_id,
                via="invite",
                **timestamps,
            )
        else:
            if existing.is_controlled:
                # The invitation precedes the control (`UserRecord.has_pending_invitation`).
                timestamps["invited_at"] = existing.invited_at
            user = reset_unconfirmed(existing, at=at, password="", aud=caller.audience, **timestamps)
        traits = {"user_id": str(user.id), "user_email": user.email}
        audit.record(audit.Action.INVITED, actor=actor, caller=caller, at=at, traits=traits)
        user_events.record_invitation(user, at=at)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=address, pkce=False, at=at
        )
    return user, secret


def release_claim(existing: UserRecord | None, *, at: datetime) -> UserRecord | None:
    """The account that the owner of the address may take over, or None for a new account.

    Another account that a person controls loses the address. Must run inside a transaction.
    """
    if existing is not None and existing.has_unproven_claim("email"):
        account_claiming.withdraw_claim(existing, "email", at=at)
        return None
    return existing


def reset_unconfirmed(existing: UserRecord, *, password: str, at: datetime, **columns: Any) -> UserRecord:
    """Store `columns` and `password` (as stored) in an account whose email address is not confirmed.

    Its creator may not own the address, so the previous password, sessions and data of sign-ups end. An invited account
    that a person controls keeps them. Must run inside a transaction. Raises EmailExists when a person has confirmed an
    identifier of the account, or has signed in to it, meanwhile.
    """
    unconfirmed = User.objects.filter(id=existing.id, email=existing.email, email_confirmed_at=None)
    if not existing.is_controlled:
        unconfirmed = unconfirmed.filter(phone_confirmed_at=None, last_sign_in_at=None)
        columns["password"] = password
    with transaction.atomic(savepoint=False):
        if not existing.is_controlled:
            queries.remove_sign_up_data(existing.id)
        if not unconfirmed.update(updated_at=at, **columns):
            raise errors.EmailExists
        if not existing.is_controlled:
            revocation.revoke_all_sessions(existing.id, reason="admin")
            account_claiming.remove_unverified_identities(existing, at=at)
        updated = queries.reread(existing)
        user_events.record_changes(existing, updated, at=at)
        return updated

"""Signing in with a password: one message for every refusal before the proof, the same cost for each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts import errors
from accounts.models import User
from accounts.passwords import hashers, policy
from accounts.passwords.policy import Weakness
from accounts.users import identifiers, queries, records
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from authsvc.security import encryption
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.issuance import TokenPair


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedInByPassword:
    user: UserRecord
    tokens: TokenPair
    weakness: Weakness | None
    """Where the password falls short of today's rules; it was accepted all the same."""


@sign_in_metrics.measure_sign_in("password", user_id=lambda done: done.user.id)
def with_password(
    *,
    email: str,
    phone: str,
    password: str,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None = None,
    not_after: datetime | None = None,
) -> SignedInByPassword:
    """Sign in by address or number and password. Raises the errors of the password grant.

    A ban or a missing confirmation is told only after the right password. With `roles`, users of any other role are
    refused as if the password were wrong; `not_after` ends the session at that time.
    """
    config = conf.current().signup
    if email and phone:
        raise errors.OnlyOneIdentifierOnLogin
    if email and not config.email_enabled:
        raise errors.EmailLoginsDisabled
    if phone and not config.phone_enabled:
        raise errors.PhoneLoginsDisabled
    if not email and not phone:
        raise errors.IdentifierMissing
    for _ in range(2):
        done = _try(email=email, phone=phone, password=password, caller=caller, at=at, roles=roles, not_after=not_after)
        if done is not None:
            return done
    raise errors.InvalidCredentials


def _try(
    *,
    email: str,
    phone: str,
    password: str,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None,
    not_after: datetime | None,
) -> SignedInByPassword | None:
    """None when what is stored has changed between its proof and the sign-in: only what holds then counts."""
    user = _find(email=email, phone=phone, aud=caller.audience)
    stored = stored_hash(user) if user else None
    if not policy.matches(password, stored) or user is None or stored is None:
        raise errors.InvalidCredentials
    if roles is not None and user.role not in roles:
        raise errors.InvalidCredentials
    if user.is_banned(at):
        raise errors.UserBannedAtSignIn
    if email and user.email_confirmed_at is None:
        raise errors.EmailNotConfirmed
    if phone and user.phone_confirmed_at is None:
        raise errors.PhoneNotConfirmed
    changes: dict[str, Any] = {"last_sign_in_at": at, "updated_at": at}
    renewed = policy.hash(password) if hashers.outdated(stored) else stored
    if renewed != stored or encryption.needs_reencryption(user.password_hash):
        changes["password"] = encryption.encrypt(renewed, bound_to=user.id)
    with transaction.atomic(durable=True):
        # A password changed in the meantime must end this sign-in as it has ended those before it.
        if not User.objects.filter(id=user.id, password=user.password_hash).update(**changes):
            return None
        traits = {"provider": "email" if email else "phone"}
        audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
        user = dataclasses.replace(user, last_sign_in_at=at, updated_at=at)
        tokens = lifecycle.start_session(user=user, method="password", caller=caller, at=at, not_after=not_after)
    return SignedInByPassword(user=user, tokens=tokens, weakness=policy.weaknesses(password))


def _find(*, email: str, phone: str, aud: str) -> UserRecord | None:
    row = (
        queries.by_email(identifiers.lower_email(email), aud=aud)
        if email
        else queries.by_phone(identifiers.bare_phone(phone), aud=aud)
    )
    return records.read(row) if row else None


def stored_hash(user: UserRecord) -> str | None:
    """The user's password hash without its envelope, None when there is no password."""
    if not user.password_hash:
        return None
    try:
        return encryption.decrypt(user.password_hash, bound_to=user.id)
    except encryption.DecryptionError as error:
        raise UnexpectedFailure("Unable to decrypt the password hash of the user") from error

"""Redeems the secret of a link or code once: confirms an address, completes a change, or signs in."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from accounts.identities import account_claiming
from accounts.models import Identity, User
from accounts.passwords import hashing, policy
from accounts.users import failed_attempts, queries, updates, user_events
from accounts.users.records import UserRecord
from accounts.verification import contact_changes, errors, secret_verification
from accounts.verification.secret_verification import VerifiedSecret
from authsvc import audit
from authsvc.audit import Action
from authsvc.caller import Caller
from authsvc.security import encryption
from tokens.flows import flow_states
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import PKCE_PREFIX
from tokens.sessions import aal, lifecycle, revocation, sign_in_metrics
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser

_CONFIRMING = frozenset({"signup", "invite"})
_FLOW_METHODS = {"signup": "email/signup"}
# The secrets of another change, which the completion of a change leaves valid.
_KEPT_TOKEN_TYPES = {
    "email_change": one_time_tokens.PHONE_CHANGE_TYPES,
    "phone_change": one_time_tokens.EMAIL_CHANGE_TYPES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Redemption:
    """The updated user with tokens, or with a code for a PKCE link.

    Neither after the first of two confirmations of an email change, nor for a change in the user's own session.
    """

    user: UserRecord
    type: str
    tokens: TokenPair | None = None
    auth_code: str | None = field(default=None, repr=False)
    awaits_second_confirmation: bool = False


def _signed_in_user(redemption: Redemption) -> UUID | None:
    return redemption.user.id if redemption.tokens is not None else None


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def open_link(*, type: str, token: str, caller: Caller, at: datetime) -> Redemption:
    """Redeem a link that a browser opened: returns a session, or a code when the link belongs to a PKCE flow."""
    pkce = token.startswith(PKCE_PREFIX)
    if pkce and type == "email":
        raise errors.InvalidEmailVerificationType
    secret = secret_verification.verify_link(type=type, token=token, caller=caller, at=at)
    return _redeem(secret, password=None, needs_password=False, pkce=pkce, caller=caller, at=at)


def find_account(*, type: str, token: str, caller: Caller, at: datetime) -> UserRecord:
    """The account of a link, which stays valid. Raises the errors of the link."""
    return secret_verification.verify_link(type=type, token=token, caller=caller, at=at).user


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_link(
    *,
    type: str,
    token: str,
    password: str | None,
    needs_password: bool = True,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None = None,
    not_after: datetime | None = None,
) -> Redemption:
    """Redeem the token of a link that a client posted: always returns a session.

    Without `needs_password`, the confirmation of an account without a password needs none. With `roles`, links of
    users of other roles count as expired and stay valid. `not_after` ends the session then.
    """
    secret = secret_verification.verify_link(type=type, token=token, caller=caller, at=at)
    if roles is not None and secret.user.role not in roles:
        raise errors.LinkExpired
    return _redeem(
        secret,
        password=password,
        needs_password=needs_password,
        pkce=False,
        caller=caller,
        at=at,
        not_after=not_after,
    )


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_email_code(
    *,
    type: str,
    email: str,
    code: str,
    password: str | None,
    needs_password: bool = True,
    caller: Caller,
    at: datetime,
    within: SignedInUser | None = None,
) -> Redemption:
    """Redeem a code that was sent to an email address. Raises CodeExpired when it does not match.

    Without `needs_password`, the confirmation of an account without a password needs none. With `within` only secrets
    of this user count, and the session stays the only one: no other is started.
    """
    secret = secret_verification.verify_email_code(
        type=type, email=email, code=code, caller=caller, at=at, within=within
    )
    return _redeem(
        secret,
        password=password,
        needs_password=needs_password,
        pkce=False,
        starts_session=within is None,
        caller=caller,
        at=at,
    )


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_sms_code(
    *, type: str, phone: str, code: str, caller: Caller, at: datetime, within: SignedInUser | None = None
) -> Redemption:
    """Redeem a code that was sent to a phone. Raises CodeExpired when it does not match.

    `within`: as `redeem_email_code`.
    """
    secret = secret_verification.verify_sms_code(type=type, phone=phone, code=code, caller=caller, at=at, within=within)
    return _redeem(
        secret, password=None, needs_password=True, pkce=False, starts_session=within is None, caller=caller, at=at
    )


def _redeem(
    secret: VerifiedSecret,
    *,
    password: str | None,
    needs_password: bool,
    pkce: bool,
    starts_session: bool = True,
    caller: Caller,
    at: datetime,
    not_after: datetime | None = None,
) -> Redemption:
    """Spend the secret and apply it, in one transaction.

    Raises the secret's `error` when a concurrent request has spent it or used up its attempts, and EmailExists,
    PhoneExists or the errors of a new password.
    """
    user = secret.user
    if not secret.is_current:
        raise secret.error
    if secret.proves is not None and user.has_unproven_claim(secret.proves):
        raise secret.error
    new_hash = _first_password(secret, password=password, needs_password=needs_password)
    with token_transaction(caller, issues_token=starts_session and not pkce):
        # The user's row before the secrets, as everywhere, so that concurrent requests cannot deadlock.
        if secret.type == "email_change" and contact_changes.confirm_first_address(user, at=at):
            if secret.token is None or not one_time_tokens.consume(secret.token, by_code=secret.by_code):
                raise secret.error
            return Redemption(user=user, type=secret.type, awaits_second_confirmation=True)
        if starts_session and not pkce:
            lifecycle.announce_session(caller)
        _apply(secret, new_hash=new_hash, signing_in=starts_session and not pkce, caller=caller, at=at)
        kept = _KEPT_TOKEN_TYPES.get(secret.type, ())
        if secret.token is None:
            one_time_tokens.delete_all(user.id, kept=kept)
        elif not one_time_tokens.consume_all(secret.token, user_id=user.id, by_code=secret.by_code, kept=kept):
            raise secret.error
        if secret.by_link and secret.type != "email_change":
            failed_attempts.reset(user.id)
        if new_hash is not None:
            revocation.revoke_all_sessions(user.id, reason="password_changed")
        stored = queries.get(user.id)
        if stored is None or stored.deleted_at is not None:
            raise secret.error  # deleted by a concurrent request
        user_events.record_changes(user, stored, at=at)
        user = stored
        if pkce:
            method = _FLOW_METHODS.get(secret.type, secret.type)
            code = flow_states.issue_code(user_id=user.id, method=method, at=at)
            return Redemption(user=user, type=secret.type, auth_code=code)
        if not starts_session:
            return Redemption(user=user, type=secret.type)
        # The code of a change proves the new address or phone only, so its session is not one of a recovery.
        method = secret.type if secret.type in aal.CHANGE_METHODS else "otp"
        tokens = lifecycle.start_session(user=user, method=method, caller=caller, at=at, not_after=not_after)
    return Redemption(user=user, type=secret.type, tokens=tokens)


def _apply(secret: VerifiedSecret, *, new_hash: str | None, signing_in: bool, caller: Caller, at: datetime) -> None:
    """Write the audit entry and the user's row, according to the verification type."""
    user = secret.user
    columns: dict[str, Any] = {"last_sign_in_at": at} if signing_in else {}
    match secret.type:
        case "email_change":
            audit.record(Action.MODIFIED, actor=user, caller=caller, at=at)
            contact_changes.complete_email_change(user, email=user.email_change, at=at, **columns)
        case "phone_change":
            audit.record(Action.MODIFIED, actor=user, caller=caller, at=at)
            contact_changes.complete_phone_change(user, phone=user.phone_change, at=at, **columns)
        case "sms":
            audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits={"provider": "phone"})
            columns |= {"phone_confirmed_at": at, "is_anonymous": False, "updated_at": at}
            columns |= updates.named_providers(user)
            if hashing.awaits_password(user):
                columns["password"] = ""
            _update_claimed(secret, columns)
            if user.phone_confirmed_at is None:
                account_claiming.withdraw_other_claim(user, proven="phone", at=at)
                account_claiming.remove_unverified_identities(dataclasses.replace(user, email=""), at=at)
        case _:
            _confirm_or_sign_in(secret, columns, new_hash=new_hash, caller=caller, at=at)


def _confirm_or_sign_in(
    secret: VerifiedSecret, columns: dict[str, Any], *, new_hash: str | None, caller: Caller, at: datetime
) -> None:
    """Confirm a sign-up or invitation, or sign in by magic link or recovery, which confirms the address as well."""
    user = secret.user
    awaits_password = hashing.awaits_password(user)
    columns |= {**updates.named_providers(user), "updated_at": at}
    if awaits_password:
        columns["password"] = ""
    if secret.type in _CONFIRMING or user.email_confirmed_at is None:
        audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits={"provider": "email"})
        columns["email_confirmed_at"] = at
        columns["raw_user_meta_data"] = updates.merged_json("raw_user_meta_data", {"email_verified": True})
        if secret.type not in _CONFIRMING:
            # Another person may have set this password when signing up with the unverified address. Only the
            # confirmation of that sign-up makes it valid.
            columns["password"] = ""
    else:
        audit.record(Action.LOGIN, actor=user, caller=caller, at=at)
    if new_hash is not None:
        columns["password"] = encryption.encrypt(new_hash, bound_to=user.id)
        columns |= updates.cleared_pending_changes(keeps_confirmation=True)
    _update_claimed(secret, columns)
    if user.email_confirmed_at is None:
        account_claiming.withdraw_other_claim(user, proven="email", at=at)
        if awaits_password or secret.type not in _CONFIRMING:
            account_claiming.remove_unverified_identities(user, at=at)
    if secret.type in _CONFIRMING:
        Identity.objects.filter(user_id=user.id, email=user.email).update(
            identity_data=updates.merged_json("identity_data", {"email_verified": True})
        )


def _update_claimed(secret: VerifiedSecret, columns: dict[str, Any]) -> None:
    """Update the user. Raises the secret's `error` if, before this first proof, a person has gained control."""
    rows = User.objects.filter(id=secret.user.id)
    if secret.user.is_controlled:
        rows.update(**columns)
    elif not rows.filter(email_confirmed_at=None, phone_confirmed_at=None, last_sign_in_at=None).update(**columns):
        raise secret.error


def _first_password(secret: VerifiedSecret, *, password: str | None, needs_password: bool) -> str | None:
    """The hash of the first password of an account without one; None to leave the account unchanged."""
    user = secret.user
    awaits_password = hashing.awaits_password(user)
    if secret.type not in _CONFIRMING or (user.password_hash and not awaits_password):
        return None
    if user.has_verified_factor:
        return None  # a password is a sign-in method, which this user changes in a session at aal2
    if password is not None:
        policy.validate_password(password)
        return hashing.hash_password(password)
    if awaits_password:
        return None
    if (
        secret.requested_type == "signup"
        and needs_password
        and all(provider in ("email", "phone") for provider in user.providers)
    ):
        raise errors.PasswordRequiredToConfirm
    if user.invited_at is not None:
        return hashing.unusable_hash()
    return None

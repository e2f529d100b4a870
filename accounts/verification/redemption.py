"""Redeems a verified secret: confirms an address, completes a change, signs in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts import errors as account_errors
from accounts.identities import account_claiming
from accounts.models import Identity, User
from accounts.passwords import hashing, policy
from accounts.users import json_columns, pending_changes, queries
from accounts.users.records import UserRecord
from accounts.verification import contact_changes, errors
from authsvc import audit
from authsvc.audit import Action
from authsvc.caller import Caller
from authsvc.security import encryption
from tokens.flows import flow_states
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import StoredToken
from tokens.sessions import lifecycle
from tokens.sessions.issuance import TokenPair

_CONFIRMING = frozenset({"signup", "invite"})
_FLOW_METHODS = {"signup": "email/signup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSecret:
    """A secret that matched, with its user and the verification type that the client requested."""

    user: UserRecord
    token: StoredToken | None
    """None for a test code, which is not stored and can be used repeatedly."""
    by_code: bool = False
    """The client presented the code, which allows a limited number of attempts, and not the link."""
    requested_type: str
    refusal: type[errors.LinkExpired | account_errors.CodeExpired]

    @property
    def type(self) -> str:
        if self.requested_type != "email":
            return self.requested_type
        return "signup" if self.token and self.token.token_type == TokenType.CONFIRMATION else "magiclink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redemption:
    """The updated user with tokens, or with a code for a PKCE link.

    Neither after the first of two confirmations of an email change.
    """

    user: UserRecord
    type: str
    tokens: TokenPair | None = None
    auth_code: str | None = field(default=None, repr=False)

    @property
    def awaits_second_confirmation(self) -> bool:
        return self.tokens is None and self.auth_code is None


def redeem(
    secret: VerifiedSecret, *, password: str | None, by_browser: bool, pkce: bool, caller: Caller, at: datetime
) -> Redemption:
    """Spend the secret and apply it, in one transaction.

    Raises the secret's `refusal` when a concurrent request has spent it or used up its attempts, and EmailExists,
    PhoneExists or the errors of a new password.
    """
    user = secret.user
    new_hash = _first_password(secret, password=password, by_browser=by_browser)
    with transaction.atomic(durable=True):
        # The user's row before the secrets, as everywhere, so that concurrent requests cannot deadlock.
        if secret.type == "email_change" and contact_changes.confirm_first_address(user, at=at):
            _spend_first(secret)
            return Redemption(user=user, type=secret.type)
        _apply(secret, new_hash=new_hash, signing_in=not pkce, caller=caller, at=at)
        if secret.token is None:
            one_time_tokens.delete_all(user.id)
        elif not one_time_tokens.consume_all(secret.token, user_id=user.id, by_code=secret.by_code):
            raise secret.refusal
        if new_hash is not None:
            lifecycle.revoke_all_sessions(user.id)
        stored = queries.get(user.id)
        if stored is None:
            raise secret.refusal  # deleted by a concurrent request
        user = stored
        if pkce:
            method = _FLOW_METHODS.get(secret.type, secret.type)
            code = flow_states.issue_code(user_id=user.id, method=method, at=at)
            return Redemption(user=user, type=secret.type, auth_code=code)
        tokens = lifecycle.start_session(user=user, method="otp", caller=caller, at=at)
    return Redemption(user=user, type=secret.type, tokens=tokens)


def _spend_first(secret: VerifiedSecret) -> None:
    token = secret.token
    if token is None or not one_time_tokens.consume(token, by_code=secret.by_code):
        raise secret.refusal


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
            columns |= {"phone_confirmed_at": at, "is_anonymous": False, **_providers(user), "updated_at": at}
            User.objects.filter(id=user.id).update(**columns)
        case _:
            _confirm_or_sign_in(secret, columns, new_hash=new_hash, caller=caller, at=at)


def _confirm_or_sign_in(
    secret: VerifiedSecret, columns: dict[str, Any], *, new_hash: str | None, caller: Caller, at: datetime
) -> None:
    """Confirm a sign-up or invitation, or sign in by magic link or recovery, which confirms the address as well."""
    user = secret.user
    columns |= {**_providers(user), "updated_at": at}
    if secret.type in _CONFIRMING or user.email_confirmed_at is None:
        audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits={"provider": "email"})
        columns["email_confirmed_at"] = at
        columns["raw_user_meta_data"] = json_columns.merged("raw_user_meta_data", {"email_verified": True})
        if secret.type not in _CONFIRMING:
            # Another person may have set this password when signing up with the unverified address. Only the
            # confirmation of that sign-up makes it valid.
            columns["password"] = ""
    else:
        audit.record(Action.LOGIN, actor=user, caller=caller, at=at)
    if new_hash is not None:
        columns["password"] = encryption.encrypt(new_hash, bound_to=user.id)
        columns |= pending_changes.cleared_columns()
    User.objects.filter(id=user.id).update(**columns)
    if secret.type not in _CONFIRMING and user.email_confirmed_at is None:
        account_claiming.remove_unverified_identities(user, at=at)
    if secret.type in _CONFIRMING:
        Identity.objects.filter(user_id=user.id, email=user.email).update(
            identity_data=json_columns.merged("identity_data", {"email_verified": True})
        )


def _providers(user: UserRecord) -> dict[str, Any]:
    providers = user.providers
    if not providers:
        return {}
    named = {"provider": providers[0], "providers": providers}
    return {"raw_app_meta_data": json_columns.merged("raw_app_meta_data", named)}


def _first_password(secret: VerifiedSecret, *, password: str | None, by_browser: bool) -> str | None:
    """The hash of the first password of an account without one; None to leave the account unchanged."""
    user = secret.user
    if secret.type not in _CONFIRMING or user.password_hash:
        return None
    if password is not None:
        policy.validate_password(password)
        return hashing.hash_password(password)
    if (
        secret.requested_type == "signup"
        and not by_browser
        and not any(provider not in ("email", "phone") for provider in user.providers)
    ):
        raise errors.PasswordRequiredToConfirm
    if user.invited_at is not None:
        return hashing.unusable_hash()
    return None

"""What a redeemed secret brings about: an address confirmed, a change completed, a sign-in."""

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
    """A secret that fits: whose it is, which it is, and what it was presented as."""

    user: UserRecord
    token: StoredToken | None
    """None for a fixed code, which is stored nowhere and good more than once."""
    by_code: bool = False
    """It was the stored code that was presented: one that can be guessed, and bears only so many guesses."""
    asked: str
    refusal: type[errors.LinkExpired | account_errors.CodeExpired]

    @property
    def type(self) -> str:
        if self.asked != "email":
            return self.asked
        return "signup" if self.token and self.token.token_type == TokenType.CONFIRMATION else "magiclink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redemption:
    """The user as committed; tokens, or for a PKCE link the code to fetch them with.

    Neither when this was the first of two addresses to confirm a change.
    """

    user: UserRecord
    type: str
    tokens: TokenPair | None = None
    auth_code: str | None = field(default=None, repr=False)

    @property
    def awaits_other_side(self) -> bool:
        return self.tokens is None and self.auth_code is None


def redeem(
    proof: VerifiedSecret, *, password: str | None, by_browser: bool, pkce: bool, caller: Caller, at: datetime
) -> Redemption:
    """Spend the secret and do what it stands for, at once or not at all.

    Raises the refusal of the proof when another request was first, or guesses at the same time have used up the code,
    and what stands against the change itself.
    """
    user = proof.user
    new_hash = _first_password(proof, password=password, by_browser=by_browser)
    with transaction.atomic(durable=True):
        # The user before the secrets, as everywhere: two requests that lock in different orders block each other.
        if proof.type == "email_change" and contact_changes.confirm_first_address(user, at=at):
            _spend_one(proof)
            return Redemption(user=user, type=proof.type)
        _take_effect(proof, new_hash=new_hash, signing_in=not pkce, caller=caller, at=at)
        if proof.token is None:
            one_time_tokens.delete_all(user.id)
        elif not one_time_tokens.consume_all(proof.token, user_id=user.id, by_code=proof.by_code):
            raise proof.refusal
        if new_hash is not None:
            lifecycle.revoke_all_sessions(user.id)
        present = queries.get(user.id)
        if present is None:
            raise proof.refusal  # deleted by somebody else just now
        user = present
        if pkce:
            method = _FLOW_METHODS.get(proof.type, proof.type)
            code = flow_states.issue_code(user_id=user.id, method=method, at=at)
            return Redemption(user=user, type=proof.type, auth_code=code)
        tokens = lifecycle.start_session(user=user, method="otp", caller=caller, at=at)
    return Redemption(user=user, type=proof.type, tokens=tokens)


def _spend_one(proof: VerifiedSecret) -> None:
    token = proof.token
    if token is None or not one_time_tokens.consume(token, by_code=proof.by_code):
        raise proof.refusal


def _take_effect(
    proof: VerifiedSecret, *, new_hash: str | None, signing_in: bool, caller: Caller, at: datetime
) -> None:
    """Write the audit entry and the user's row; what the type stands for decides which."""
    user = proof.user
    columns: dict[str, Any] = {"last_sign_in_at": at} if signing_in else {}
    match proof.type:
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
            _confirm_or_sign_in(proof, columns, new_hash=new_hash, caller=caller, at=at)


def _confirm_or_sign_in(
    proof: VerifiedSecret, columns: dict[str, Any], *, new_hash: str | None, caller: Caller, at: datetime
) -> None:
    """A sign-up or invitation confirmed, or a sign-in by magic link or recovery, which confirms as well."""
    user = proof.user
    columns |= {**_providers(user), "updated_at": at}
    if proof.type in _CONFIRMING or user.email_confirmed_at is None:
        audit.record(Action.SIGNED_UP, actor=user, caller=caller, at=at, traits={"provider": "email"})
        columns["email_confirmed_at"] = at
        columns["raw_user_meta_data"] = json_columns.merged("raw_user_meta_data", {"email_verified": True})
        if proof.type not in _CONFIRMING:
            # A password that came with the sign-up of an address nobody had proved may be a stranger's: only that
            # sign-up's own mail makes it hold.
            columns["password"] = ""
    else:
        audit.record(Action.LOGIN, actor=user, caller=caller, at=at)
    if new_hash is not None:
        columns["password"] = encryption.encrypt(new_hash, bound_to=user.id)
        columns |= pending_changes.cleared_columns()
    User.objects.filter(id=user.id).update(**columns)
    if proof.type not in _CONFIRMING and user.email_confirmed_at is None:
        account_claiming.remove_unverified_identities(user, at=at)
    if proof.type in _CONFIRMING:
        Identity.objects.filter(user_id=user.id, email=user.email).update(
            identity_data=json_columns.merged("identity_data", {"email_verified": True})
        )


def _providers(user: UserRecord) -> dict[str, Any]:
    providers = user.providers
    if not providers:
        return {}
    named = {"provider": providers[0], "providers": providers}
    return {"raw_app_meta_data": json_columns.merged("raw_app_meta_data", named)}


def _first_password(proof: VerifiedSecret, *, password: str | None, by_browser: bool) -> str | None:
    """The hash of the password that an account without one gets on confirmation; None to leave it as it is."""
    user = proof.user
    if proof.type not in _CONFIRMING or user.password_hash:
        return None
    if password is not None:
        policy.validate_password(password)
        return hashing.hash_password(password)
    if proof.asked == "signup" and not by_browser and not any(p not in ("email", "phone") for p in user.providers):
        raise errors.PasswordRequiredToConfirm
    if user.invited_at is not None:
        return hashing.unusable_hash()
    return None

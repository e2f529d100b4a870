"""Redeeming what a mail carried: its link or its code, once, for its purpose, by its address."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts import errors, identifiers, json_columns, passwords, queries, records
from accounts.models import Identity, User
from accounts.records import UserRecord
from authsvc.core import audit, crypto
from authsvc.core.caller import Caller
from authsvc.core.errors import ApiError
from tokens.models import TokenType
from tokens.services import flows, one_time_tokens, sessions
from tokens.services.one_time_tokens import PKCE_MARK, Outstanding
from tokens.services.sessions import TokenPair

# What a type is checked against; `email` stands for whichever of the two a client was sent.
_SECRETS = {
    "signup": (TokenType.CONFIRMATION,),
    "invite": (TokenType.CONFIRMATION,),
    "recovery": (TokenType.RECOVERY,),
    "magiclink": (TokenType.RECOVERY,),
    "email": (TokenType.CONFIRMATION, TokenType.RECOVERY),
}
_CONFIRMING = frozenset({"signup", "invite"})
_FLOW_METHODS = {"signup": "email/signup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The user as committed; tokens, or for a PKCE link the code to fetch them with."""

    user: UserRecord
    type: str
    tokens: TokenPair | None = None
    auth_code: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """A secret that fits: whose it is, which it is, and what it was presented as."""

    user: UserRecord
    token: Outstanding
    asked: str
    refusal: type[errors.LinkExpired | errors.CodeExpired]

    @property
    def type(self) -> str:
        if self.asked != "email":
            return self.asked
        return "signup" if self.token.token_type == TokenType.CONFIRMATION else "magiclink"


def open_link(*, type: str, token: str, caller: Caller, at: datetime) -> Verified:
    """Redeem a link as a browser opens it: a session, or a code when the link belongs to a PKCE flow."""
    pkce = token.startswith(PKCE_MARK)
    if pkce and type == "email":
        raise errors.InvalidEmailVerificationType
    proof = _by_link(type=type, token=token, at=at)
    return _redeem(proof, password=None, by_browser=True, pkce=pkce, caller=caller, at=at)


def redeem_link(*, type: str, token: str, password: str | None, caller: Caller, at: datetime) -> Verified:
    """Redeem the token of a link that a client posts: always a session."""
    proof = _by_link(type=type, token=token, at=at)
    return _redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


def redeem_code(*, type: str, email: str, code: str, password: str | None, caller: Caller, at: datetime) -> Verified:
    """Redeem a code typed by hand, with the address it was sent to. Raises CodeExpired for anything that does not fit.

    A wrong code is counted on every secret it could have been for.
    """
    try:
        address = identifiers.email(email)
    except ApiError:
        raise errors.InvalidEmailFormat from None
    rows = queries.with_tokens_of_email(
        email=address, aud=caller.audience, token_types=[str(each) for each in _SECRETS.get(type, ())]
    )
    candidates = [_outstanding(row) for row in rows]
    fitting = [token for token in candidates if token.answers(identifier=address, code=code)]
    if not fitting:
        if candidates:
            one_time_tokens.count_wrong_code([token.id for token in candidates])
        raise errors.CodeExpired
    user = records.read(rows[0])
    if user.is_banned(at):
        raise errors.UserBanned
    token = min(fitting, key=lambda each: each.token_type != TokenType.CONFIRMATION)
    if not token.is_fresh(at):
        raise errors.CodeExpired
    proof = _Proof(user=user, token=token, asked=type, refusal=errors.CodeExpired)
    return _redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


def _by_link(*, type: str, token: str, at: datetime) -> _Proof:
    if type not in _SECRETS:
        raise errors.InvalidEmailVerificationType
    row = queries.with_token_of_link(
        link_hash=crypto.link_hash(token), token_types=[str(each) for each in _SECRETS[type]]
    )
    if row is None:
        raise errors.LinkExpired
    user, found = records.read(row), _outstanding(row)
    if user.is_banned(at):
        raise errors.UserBanned
    if not found.is_fresh(at):
        raise errors.LinkExpired
    return _Proof(user=user, token=found, asked=type, refusal=errors.LinkExpired)


def _outstanding(row: queries.Row) -> Outstanding:
    id_, token_type, token_hash, created_at, attempts = row[queries.USER_WIDTH :]
    return Outstanding(id=id_, token_type=token_type, token_hash=token_hash, created_at=created_at, attempts=attempts)


def _redeem(
    proof: _Proof, *, password: str | None, by_browser: bool, pkce: bool, caller: Caller, at: datetime
) -> Verified:
    user = proof.user
    new_hash = _first_password(proof, password=password, by_browser=by_browser)
    with transaction.atomic(durable=True):
        confirming = proof.type in _CONFIRMING or user.email_confirmed_at is None
        if confirming:
            traits = {"provider": "email"}
            audit.record(audit.Action.SIGNED_UP, actor=user, caller=caller, at=at, traits=traits)
        else:
            audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at)
        # The user before the secrets, as everywhere: two requests that lock in different orders block each other.
        changes = _changes(proof, confirming=confirming, new_hash=new_hash, signing_in=not pkce, at=at)
        User.objects.filter(id=user.id).update(**changes)
        if not one_time_tokens.spend(proof.token, user_id=user.id):
            raise proof.refusal
        if proof.type in _CONFIRMING:
            Identity.objects.filter(user_id=user.id, email=user.email).update(
                identity_data=json_columns.merged("identity_data", {"email_verified": True})
            )
        if new_hash is not None:
            sessions.revoke_all(user.id)
        row = queries.by_id(user.id)
        if row is None:
            raise proof.refusal  # deleted by somebody else just now
        user = records.read(row)
        if pkce:
            method = _FLOW_METHODS.get(proof.type, proof.type)
            code = flows.hand_out_code(user_id=user.id, method=method, at=at)
            return Verified(user=user, type=proof.type, auth_code=code)
        tokens = sessions.start(subject=user, method="otp", caller=caller, at=at)
    return Verified(user=user, type=proof.type, tokens=tokens)


def _first_password(proof: _Proof, *, password: str | None, by_browser: bool) -> str | None:
    """The hash of the password that an account without one gets on confirmation; None to leave it as it is."""
    user = proof.user
    if proof.type not in _CONFIRMING or user.password_hash:
        return None
    if password is not None:
        passwords.check_policy(password)
        return passwords.hash(password)
    if proof.asked == "signup" and not by_browser and not any(p not in ("email", "phone") for p in user.providers):
        raise errors.PasswordRequiredToConfirm
    if user.invited_at is not None:
        return passwords.undisclosed()
    return None


def _changes(
    proof: _Proof, *, confirming: bool, new_hash: str | None, signing_in: bool, at: datetime
) -> dict[str, Any]:
    """What the redemption writes on the user, as one update."""
    providers = proof.user.providers
    changes: dict[str, Any] = {"updated_at": at}
    if providers:
        changes["raw_app_meta_data"] = json_columns.merged(
            "raw_app_meta_data", {"provider": providers[0], "providers": providers}
        )
    if signing_in:
        changes["last_sign_in_at"] = at
    if confirming:
        changes["email_confirmed_at"] = at
        changes["raw_user_meta_data"] = json_columns.merged("raw_user_meta_data", {"email_verified": True})
        if proof.type not in _CONFIRMING:
            # A password that came with the sign-up of an address nobody had proved may be a stranger's: only that
            # sign-up's own mail makes it hold.
            changes["password"] = ""
    if new_hash is not None:
        changes["password"] = new_hash
        for name in ("confirmation", "recovery", "email_change", "phone_change", "reauthentication"):
            changes[f"{name}_sent_at"] = None
    return changes

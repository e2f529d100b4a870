"""The password grant. Every failure before the password is verified returns the same error and takes the same time."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, TypedDict

from accounts import errors as account_errors
from accounts import models  # not `User`: the response schemas of this module refer to another class of that name
from accounts.passwords import hashing, policy
from accounts.passwords.policy import Weakness
from accounts.sign_in import errors
from accounts.users import attempt_hooks, failed_attempts, identifiers, queries
from accounts.users.records import UserRecord
from authsvc import audit, conf
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.security import encryption
from tokens.api import grants
from tokens.api.schemas import Session
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.errors import UserBannedAtSignIn
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSignIn:
    user: UserRecord
    tokens: TokenPair
    weakness: Weakness | None
    """The weakness of the password under the current policy; the sign-in succeeds anyway."""


class PasswordInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("password",)
    email: str | None = None
    phone: str | None = None
    password: str | None = None


class WeakPassword(TypedDict):
    """The reasons why a correct password should be changed."""

    message: str
    reasons: list[Literal["length", "characters", "pwned"]]


class SessionByPassword(Session):
    """A session started with a password."""

    weak_password: WeakPassword | None
    """The weakness of the password under the current policy."""


@sign_in_metrics.measure_sign_in("password", user_id=lambda result: result.user.id)
def sign_in_with_password(
    *,
    email: str,
    phone: str,
    password: str,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None = None,
    not_after: datetime | None = None,
) -> PasswordSignIn:
    """Sign in by email or phone and password. Raises the errors of the password grant.

    A ban or a missing confirmation is reported only after the correct password. With `roles`, users of other roles are
    refused as if the password were wrong. `not_after` ends the session at that time.
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
        sign_in = _sign_in(
            email=email, phone=phone, password=password, caller=caller, at=at, roles=roles, not_after=not_after
        )
        if sign_in is not None:
            return sign_in
    raise errors.InvalidCredentials


class PasswordGrant:
    """Sign in with an email or phone and the password (RFC 6749 §4.3, kept for first-party clients)."""

    input = PasswordInput
    response_schema: ClassVar[Any] = SessionByPassword
    documented_errors: ClassVar[ErrorTypes] = (
        errors.InvalidCredentials,
        errors.PasswordAttemptRejected,
        errors.IdentifierMissing,
        errors.OnlyOneIdentifierOnLogin,
        account_errors.PasswordTooLong,
        errors.EmailLoginsDisabled,
        errors.PhoneLoginsDisabled,
        errors.EmailNotConfirmed,
        errors.PhoneNotConfirmed,
        UserBannedAtSignIn,
    )

    def exchange(self, body: PasswordInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        result = sign_in_with_password(
            email=body.email or "", phone=body.phone or "", password=body.password or "", caller=caller, at=at
        )
        weak = result.weakness and {"message": result.weakness.message, "reasons": list(result.weakness.reasons)}
        return grants.token_response(result.tokens, user=result.user, weak_password=weak)


def _sign_in(
    *,
    email: str,
    phone: str,
    password: str,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None,
    not_after: datetime | None,
) -> PasswordSignIn | None:
    """Sign in; None if the stored password has changed since it was verified. The caller then tries once more."""
    found = _find(email=email, phone=phone, aud=caller.audience)
    user, failures = found or (None, 0)
    caller.audit.account = user
    stored = hashing.stored_hash(user) if user else None
    # Before the password is verified, so that the time does not reveal whether it is correct.
    is_refused = user is not None and failed_attempts.is_refused(user.id, caller=caller, count=failures)
    if not hashing.verify_password(password, stored) or user is None or stored is None:
        hashing.learn_kind(stored)
        _record_failure(user, identifier=email or phone, at=at)
        if roles is None:
            _ask_hook(user, stored, is_valid=False, caller=caller, at=at)
        raise errors.InvalidCredentials
    # Operators must be able to sign in to the console while the hook is down.
    if roles is None:
        _ask_hook(user, stored, is_valid=True, caller=caller, at=at)
    by_email = bool(email)
    refusal = errors.InvalidCredentials if is_refused else _find_refusal(user, by_email=by_email, roles=roles, at=at)
    if refusal is not None:
        hashing.complete_refusal(password, stored)
        if refusal is errors.InvalidCredentials:
            _record_failure(user, identifier=email or phone, at=at)
        raise refusal
    changes: dict[str, Any] = {"last_sign_in_at": at, "updated_at": at}
    new_hash = hashing.hash_password(password) if hashing.needs_rehash(stored) else stored
    if new_hash != stored or encryption.needs_reencryption(user.password_hash):
        changes["password"] = encryption.encrypt(new_hash, bound_to=user.id)
    with token_transaction(caller):
        # A password change ends all sessions. It must also end a sign-in that started before it. Failures of concurrent
        # requests count as well.
        unchanged = models.User.objects.filter(id=user.id, password=user.password_hash)
        if not failed_attempts.is_limited(failures):
            unchanged = unchanged.filter(failed_attempts.below_limit())
        if not unchanged.update(**changes):
            return None
        signed_in = dataclasses.replace(user, last_sign_in_at=at, updated_at=at)
        tokens = lifecycle.start_session(user=signed_in, method="password", caller=caller, at=at, not_after=not_after)
        traits = {"provider": "email" if email else "phone"}
        audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    return PasswordSignIn(user=signed_in, tokens=tokens, weakness=policy.find_weakness(password))


def _ask_hook(user: UserRecord | None, stored: str | None, *, is_valid: bool, caller: Caller, at: datetime) -> None:
    """Raise an ApiError if the hook rejects the verification. It sees no users who are banned or have no password."""
    has_password = stored not in (None, hashing.NO_PASSWORD)
    if attempt_hooks.hooks is not None and user is not None and has_password and not user.is_banned(at):
        attempt_hooks.hooks.check_password(user.id, is_valid=is_valid, caller=caller)


def _find_refusal(
    user: UserRecord, *, by_email: bool, roles: Collection[str] | None, at: datetime
) -> type[ApiError] | None:
    """The error for a user who may not sign in although the password is correct."""
    if roles is not None and user.role not in roles:
        return errors.InvalidCredentials
    if user.is_banned(at):
        return UserBannedAtSignIn
    if by_email and user.email_confirmed_at is None:
        return errors.EmailNotConfirmed
    if not by_email and user.phone_confirmed_at is None:
        return errors.PhoneNotConfirmed
    return None


def _find(*, email: str, phone: str, aud: str) -> tuple[UserRecord, int] | None:
    """The user and the number of wrong passwords and codes. One statement."""
    if email:
        return queries.find_with_failures("email", identifiers.lower_email(email), aud=aud)
    return queries.find_with_failures("phone", identifiers.bare_phone(phone), aud=aud)


def _record_failure(user: UserRecord | None, *, identifier: str, at: datetime) -> None:
    failed_attempts.record([user.id] if user else [], identifier=identifier, at=at)

"""Verifies the link or code of a message: finds the secret that was sent, and counts wrong codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from accounts import errors as account_errors
from accounts.users import failed_attempts, identifiers, queries
from accounts.users.records import UserRecord
from accounts.verification import errors
from authsvc import conf
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.messaging import contract
from authsvc.security import crypto
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import StoredToken
from tokens.sessions.errors import UserBanned
from tokens.sessions.users import SignedInUser

# The secrets that each verification type accepts. `email` accepts sign-up confirmations and magic links.
_EMAIL_TOKEN_TYPES = {
    "signup": (TokenType.CONFIRMATION,),
    "invite": (TokenType.CONFIRMATION,),
    "recovery": (TokenType.RECOVERY,),
    "magiclink": (TokenType.RECOVERY,),
    "email": (TokenType.CONFIRMATION, TokenType.RECOVERY),
    "email_change": one_time_tokens.EMAIL_CHANGE_TYPES,
}
_SMS_TOKEN_TYPES = {
    # A code for an invited user has the type of a recovery.
    "sms": (TokenType.CONFIRMATION, TokenType.RECOVERY),
    "phone_change": one_time_tokens.PHONE_CHANGE_TYPES,
}
_PENDING: Mapping[str, str] = {TokenType.EMAIL_CHANGE_NEW: "email_change", TokenType.PHONE_CHANGE: "phone_change"}
"""Columns of new addresses and phones; a secret of another type was sent to the present address or phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSecret:
    """A secret that matched, with its user and the verification type that the client requested."""

    user: UserRecord
    token: StoredToken | None
    """None for a test code, which is not stored and can be used repeatedly."""
    by_code: bool = False
    """The client presented the code, which allows a limited number of attempts, and not the link."""
    by_link: bool = False
    """The client presented the token of a link, which proves access to the mailbox."""
    requested_type: str
    error: type[errors.LinkExpired | account_errors.CodeExpired]

    @property
    def type(self) -> str:
        if self.requested_type != "email":
            return self.requested_type
        return "signup" if self.token and self.token.token_type == TokenType.CONFIRMATION else "magiclink"

    @property
    def is_current(self) -> bool:
        """True if the account, or its pending change, still has the address or phone to which the secret was sent."""
        if self.token is None:
            return True
        column = _PENDING.get(self.token.token_type) or ("email" if "@" in self.token.relates_to else "phone")
        return bool(getattr(self.user, column) == self.token.relates_to)

    @property
    def proves(self) -> Literal["email", "phone"] | None:
        """The present identifier of the account that the secret proves; None for the new one of a change."""
        if self.type == "sms":
            return "phone"
        if self.type == "phone_change" or (self.token and self.token.token_type == TokenType.EMAIL_CHANGE_NEW):
            return None
        return "email"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentSecret:
    """The newest secret of one type that was sent to an email address or phone."""

    user: UserRecord
    token: StoredToken
    is_only: bool
    """No other user has an unused secret of this type for the same phone or address."""


def verify_link(*, type: str, token: str, caller: Caller, at: datetime) -> VerifiedSecret:
    """Find the secret of a link, which stays valid. Raises InvalidEmailVerificationType, LinkExpired or UserBanned."""
    if type not in _EMAIL_TOKEN_TYPES:
        raise errors.InvalidEmailVerificationType
    match = queries.find_by_link(
        link_hash=crypto.hash_link_token(token),
        plain_digest=crypto.plain_token_digest(token),
        token_types=[str(token_type) for token_type in _EMAIL_TOKEN_TYPES[type]],
    )
    if match is None:
        raise errors.LinkExpired
    user, secret = match[0], one_time_tokens.from_row(match[1])
    caller.audit.account = user
    if user.is_banned(at):
        raise UserBanned
    if not secret.is_fresh(at):
        raise errors.LinkExpired
    return VerifiedSecret(user=user, token=secret, by_link=True, requested_type=type, error=errors.LinkExpired)


def verify_email_code(
    *, type: str, email: str, code: str, caller: Caller, at: datetime, within: SignedInUser | None = None
) -> VerifiedSecret:
    """Verify a code that was sent to an email address. Raises CodeExpired when it does not match, or UserBanned.

    A code is compared with the newest secret of each type only. Otherwise an attacker with many accounts waiting for
    one address could guess the codes of all of them at once. A wrong code is counted on the compared secrets. With
    `within` only secrets of this user count.
    """
    try:
        address = identifiers.email(email)
    except ApiError:
        raise errors.InvalidEmailFormat from None
    sent = _newest_secrets(address, types=_EMAIL_TOKEN_TYPES.get(type, ()), audience=caller.audience, within=within)
    caller.audit.account = sent[0].user if sent else queries.find_by("email", address, aud=caller.audience)
    secret = _find_match(sent, code=code, identifier=address, at=at)
    _check_failed_attempts(secret.user, sent, caller=caller, at=at)
    if secret.user.is_banned(at):
        raise UserBanned
    if not secret.token.is_fresh(at):
        raise account_errors.CodeExpired
    return VerifiedSecret(
        user=secret.user, token=secret.token, by_code=True, requested_type=type, error=account_errors.CodeExpired
    )


def verify_sms_code(
    *, type: str, phone: str, code: str, caller: Caller, at: datetime, within: SignedInUser | None = None
) -> VerifiedSecret:
    """Verify a code that was sent to a phone. Raises CodeExpired when it does not match, or UserBanned.

    The test code of a phone is always valid. Twilio Verify checks the codes that it sent itself. `within`: as
    `verify_email_code`.
    """
    number = identifiers.phone(phone)
    if type not in _SMS_TOKEN_TYPES:
        raise account_errors.CodeExpired
    sent = _newest_secrets(number, types=_SMS_TOKEN_TYPES[type], audience=caller.audience, within=within)
    caller.audit.account = sent[0].user if sent else queries.find_by("phone", number, aud=caller.audience)
    test_code = conf.current().sms.test_code(number, at=at)
    by_code = False
    if test_code is not None and crypto.constant_time_equal(test_code, code):
        secret = sent[0] if sent else None
        user = secret.user if secret else _user_with_phone(number, type=type, audience=caller.audience)
        if within is not None and user.id != within.user.id:
            raise account_errors.CodeExpired
    elif contract.has_verifying_gateway():
        verifier = contract.phone_verifier
        # The gateway knows only the phone. With two users waiting for a code, the code would not identify the user.
        if not sent or not sent[0].is_only or not verifier.is_approved(phone=number, code=code):
            _record_wrong_code(sent, identifier=number, at=at)
            raise account_errors.CodeExpired
        secret = sent[0]
        user = secret.user
    else:
        secret, by_code = _find_match(sent, code=code, identifier=number, at=at), True
        user = secret.user
    _check_failed_attempts(user, sent, caller=caller, at=at)
    if by_code and secret is not None and not secret.token.is_fresh(at):
        raise account_errors.CodeExpired
    if user.is_banned(at):
        raise UserBanned
    token = secret.token if secret else None
    return VerifiedSecret(
        user=user, token=token, by_code=by_code, requested_type=type, error=account_errors.CodeExpired
    )


def _find_match(sent: list[_SentSecret], *, code: str, identifier: str, at: datetime) -> _SentSecret:
    """The secret that matches this code. Raises CodeExpired after counting a wrong code."""
    matching = [secret for secret in sent if secret.token.matches(code)]
    if not matching:
        _record_wrong_code(sent, identifier=identifier, at=at)
        raise account_errors.CodeExpired
    return min(matching, key=lambda secret: secret.token.token_type != TokenType.CONFIRMATION)


def _record_wrong_code(sent: list[_SentSecret], *, identifier: str, at: datetime) -> None:
    """Count a wrong code on the secrets that it was compared with, and on their accounts."""
    if sent:
        one_time_tokens.record_wrong_code([secret.token.id for secret in sent])
    failed_attempts.record([secret.user.id for secret in sent], identifier=identifier, at=at)


def _check_failed_attempts(user: UserRecord, sent: list[_SentSecret], *, caller: Caller, at: datetime) -> None:
    """Raise CodeExpired, as for a wrong code, if wrong passwords and codes limit the account to known networks."""
    if failed_attempts.is_refused(user.id, caller=caller):
        _record_wrong_code(sent, identifier=user.email or user.phone, at=at)
        raise account_errors.CodeExpired


def _newest_secrets(
    identifier: str, *, types: tuple[TokenType, ...], audience: str, within: SignedInUser | None
) -> list[_SentSecret]:
    """At most one secret of each type, with `within` only of this user."""
    rows = queries.find_newest_tokens(
        identifier=identifier, aud=audience, token_types=[str(token_type) for token_type in types]
    )
    return [
        _SentSecret(user=user, token=one_time_tokens.from_row(columns), is_only=waiting == 1)
        for user, columns, waiting in rows
        if within is None or user.id == within.user.id
    ]


def _user_with_phone(number: str, *, type: str, audience: str) -> UserRecord:
    """The user with this phone, when a test code is used and no secret is stored."""
    user = queries.find_by("phone" if type == "sms" else "phone_change", number, aud=audience)
    if user is None:
        raise account_errors.CodeExpired
    return user

"""Verifies the link or code of a message: finds its secret, checks it, and redeems it once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from accounts import errors as account_errors
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from accounts.verification import errors, redemption
from accounts.verification.redemption import Redemption, VerifiedSecret
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.errors import UserBanned
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import PKCE_PREFIX, StoredToken
from tokens.sessions import sign_in_metrics

# The secrets that each verification type accepts. `email` accepts sign-up confirmations and magic links.
_EMAIL_TOKEN_TYPES = {
    "signup": (TokenType.CONFIRMATION,),
    "invite": (TokenType.CONFIRMATION,),
    "recovery": (TokenType.RECOVERY,),
    "magiclink": (TokenType.RECOVERY,),
    "email": (TokenType.CONFIRMATION, TokenType.RECOVERY),
    "email_change": (TokenType.EMAIL_CHANGE_CURRENT, TokenType.EMAIL_CHANGE_NEW),
}
_SMS_TOKEN_TYPES = {"sms": TokenType.CONFIRMATION, "phone_change": TokenType.PHONE_CHANGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentSecret:
    """The newest secret of one type that was sent to an email address or phone."""

    user: UserRecord
    token: StoredToken
    is_only: bool
    """No other user has an unused secret of this type for the same phone or address."""


def _signed_in_user(redemption: Redemption) -> UUID | None:
    return redemption.user.id if redemption.tokens is not None else None


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def open_link(*, type: str, token: str, caller: Caller, at: datetime) -> Redemption:
    """Redeem a link that a browser opened: returns a session, or a code when the link belongs to a PKCE flow."""
    pkce = token.startswith(PKCE_PREFIX)
    if pkce and type == "email":
        raise errors.InvalidEmailVerificationType
    verified = _find_by_link(type=type, token=token, at=at)
    return redemption.redeem(verified, password=None, by_browser=True, pkce=pkce, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_link(*, type: str, token: str, password: str | None, caller: Caller, at: datetime) -> Redemption:
    """Redeem the token of a link that a client posted: always returns a session."""
    verified = _find_by_link(type=type, token=token, at=at)
    return redemption.redeem(verified, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_email_code(
    *, type: str, email: str, code: str, password: str | None, caller: Caller, at: datetime
) -> Redemption:
    """Redeem a code that was sent to an email address. Raises CodeExpired when it does not match.

    A code is compared with the newest secret of each type only. Otherwise an attacker with many accounts waiting for
    one address could guess the codes of all of them at once. A wrong code is counted on the compared secrets.
    """
    try:
        address = identifiers.email(email)
    except ApiError:
        raise errors.InvalidEmailFormat from None
    secret = _matching(
        _newest_secrets(address, types=_EMAIL_TOKEN_TYPES.get(type, ()), audience=caller.audience), code=code
    )
    if secret.user.is_banned(at):
        raise UserBanned
    if not secret.token.is_fresh(at):
        raise account_errors.CodeExpired
    verified = VerifiedSecret(
        user=secret.user, token=secret.token, by_code=True, requested_type=type, refusal=account_errors.CodeExpired
    )
    return redemption.redeem(verified, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in_user)
def redeem_sms_code(*, type: str, phone: str, code: str, caller: Caller, at: datetime) -> Redemption:
    """Redeem a code that was sent to a phone.

    The test code of a phone is always valid. Twilio Verify checks the codes that it sent itself.
    """
    number = identifiers.phone(phone)
    if type not in _SMS_TOKEN_TYPES:
        raise account_errors.CodeExpired
    sent = _newest_secrets(number, types=(_SMS_TOKEN_TYPES[type],), audience=caller.audience)
    test_code = conf.current().sms.test_code(number, at=at)
    by_code = False
    if test_code is not None and crypto.constant_time_equal(test_code, code):
        secret = sent[0] if sent else None
    elif conf.current().sms.provider == "twilio_verify":
        verifier = messaging.phone_verifier.get()
        # The gateway knows only the phone. With two users waiting for a code, the code would not identify the user.
        if not sent or not sent[0].is_only or not verifier.is_approved(phone=number, code=code):
            raise account_errors.CodeExpired
        secret = sent[0]
    else:
        secret, by_code = _matching(sent, code=code), True
        if not secret.token.is_fresh(at):
            raise account_errors.CodeExpired
    user = secret.user if secret else _user_with_phone(number, type=type, audience=caller.audience)
    if user.is_banned(at):
        raise UserBanned
    token = secret.token if secret else None
    verified = VerifiedSecret(
        user=user, token=token, by_code=by_code, requested_type=type, refusal=account_errors.CodeExpired
    )
    return redemption.redeem(verified, password=None, by_browser=False, pkce=False, caller=caller, at=at)


def _find_by_link(*, type: str, token: str, at: datetime) -> VerifiedSecret:
    if type not in _EMAIL_TOKEN_TYPES:
        raise errors.InvalidEmailVerificationType
    found = queries.find_by_link(
        link_hash=crypto.hash_link_token(token),
        token_types=[str(token_type) for token_type in _EMAIL_TOKEN_TYPES[type]],
    )
    if found is None:
        raise errors.LinkExpired
    user, secret = found[0], one_time_tokens.from_row(found[1])
    if user.is_banned(at):
        raise UserBanned
    if not secret.is_fresh(at):
        raise errors.LinkExpired
    return VerifiedSecret(user=user, token=secret, requested_type=type, refusal=errors.LinkExpired)


def _matching(sent: list[_SentSecret], *, code: str) -> _SentSecret:
    """The secret that matches this code. Raises CodeExpired after counting a wrong code."""
    matching = [secret for secret in sent if secret.token.matches(code)]
    if not matching:
        if sent:
            one_time_tokens.record_wrong_code([secret.token.id for secret in sent])
        raise account_errors.CodeExpired
    return min(matching, key=lambda secret: secret.token.token_type != TokenType.CONFIRMATION)


def _newest_secrets(identifier: str, *, types: tuple[TokenType, ...], audience: str) -> list[_SentSecret]:
    """At most one secret of each type."""
    rows = queries.find_newest_tokens(
        identifier=identifier, aud=audience, token_types=[str(token_type) for token_type in types]
    )
    return [
        _SentSecret(user=user, token=one_time_tokens.from_row(columns), is_only=waiting == 1)
        for user, columns, waiting in rows
    ]


def _user_with_phone(number: str, *, type: str, audience: str) -> UserRecord:
    """The user with this phone, when a test code is used and no secret is stored."""
    user = queries.find_by("phone" if type == "sms" else "phone_change", number, aud=audience)
    if user is None:
        raise account_errors.CodeExpired
    return user

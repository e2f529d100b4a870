"""Redeeming what a message carried: its link or its code, once, for its purpose, by its address."""

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

# What a type is checked against; `email` stands for whichever of the two a client was sent.
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
    """The last secret of a type that went to an address or number."""

    user: UserRecord
    token: StoredToken
    is_only: bool
    """Nobody else waits for one of that type there."""


def _signed_in(done: Redemption) -> UUID | None:
    return done.user.id if done.tokens is not None else None


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def open_link(*, type: str, token: str, caller: Caller, at: datetime) -> Redemption:
    """Redeem a link as a browser opens it: a session, or a code when the link belongs to a PKCE flow."""
    pkce = token.startswith(PKCE_PREFIX)
    if pkce and type == "email":
        raise errors.InvalidEmailVerificationType
    proof = _find_by_link(type=type, token=token, at=at)
    return redemption.redeem(proof, password=None, by_browser=True, pkce=pkce, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_link(*, type: str, token: str, password: str | None, caller: Caller, at: datetime) -> Redemption:
    """Redeem the token of a link that a client posts: always a session."""
    proof = _find_by_link(type=type, token=token, at=at)
    return redemption.redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_email_code(
    *, type: str, email: str, code: str, password: str | None, caller: Caller, at: datetime
) -> Redemption:
    """Redeem a code typed by hand, with the address it was sent to. Raises CodeExpired for anything that does not fit.

    A code is compared with the last that was sent there for its purpose: were it with all, whoever lets many accounts
    wait for one address would guess at all of them at once. A wrong one is counted on what it was compared with.
    """
    try:
        address = identifiers.email(email)
    except ApiError:
        raise errors.InvalidEmailFormat from None
    found = _matching(
        _newest_secrets(address, types=_EMAIL_TOKEN_TYPES.get(type, ()), audience=caller.audience), code=code
    )
    if found.user.is_banned(at):
        raise UserBanned
    if not found.token.is_fresh(at):
        raise account_errors.CodeExpired
    proof = VerifiedSecret(
        user=found.user, token=found.token, by_code=True, asked=type, refusal=account_errors.CodeExpired
    )
    return redemption.redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_sms_code(*, type: str, phone: str, code: str, caller: Caller, at: datetime) -> Redemption:
    """The same for a code that was texted. A number's fixed code is good at any time; a gateway may check its own."""
    number = identifiers.phone(phone)
    if type not in _SMS_TOKEN_TYPES:
        raise account_errors.CodeExpired
    sent = _newest_secrets(number, types=(_SMS_TOKEN_TYPES[type],), audience=caller.audience)
    fixed = conf.current().sms.test_code(number, at=at)
    by_code = False
    if fixed is not None and crypto.constant_time_equal(fixed, code):
        found = sent[0] if sent else None
    elif conf.current().sms.provider == "twilio_verify":
        verifier = messaging.phone_verifier.get()
        # The gateway knows the number alone: with two users waiting for it, nobody could say whose code this is.
        if not sent or not sent[0].is_only or not verifier.is_approved(phone=number, code=code):
            raise account_errors.CodeExpired
        found = sent[0]
    else:
        found, by_code = _matching(sent, code=code), True
        if not found.token.is_fresh(at):
            raise account_errors.CodeExpired
    user = found.user if found else _user_with_phone(number, type=type, audience=caller.audience)
    if user.is_banned(at):
        raise UserBanned
    token = found.token if found else None
    proof = VerifiedSecret(user=user, token=token, by_code=by_code, asked=type, refusal=account_errors.CodeExpired)
    return redemption.redeem(proof, password=None, by_browser=False, pkce=False, caller=caller, at=at)


def _find_by_link(*, type: str, token: str, at: datetime) -> VerifiedSecret:
    if type not in _EMAIL_TOKEN_TYPES:
        raise errors.InvalidEmailVerificationType
    found = queries.find_by_link(
        link_hash=crypto.hash_link_token(token), token_types=[str(each) for each in _EMAIL_TOKEN_TYPES[type]]
    )
    if found is None:
        raise errors.LinkExpired
    user, token_sent = found[0], one_time_tokens.from_row(found[1])
    if user.is_banned(at):
        raise UserBanned
    if not token_sent.is_fresh(at):
        raise errors.LinkExpired
    return VerifiedSecret(user=user, token=token_sent, asked=type, refusal=errors.LinkExpired)


def _matching(sent: list[_SentSecret], *, code: str) -> _SentSecret:
    """The secret that this code is. Raises CodeExpired, having counted a wrong code."""
    fitting = [each for each in sent if each.token.matches(code)]
    if not fitting:
        if sent:
            one_time_tokens.record_wrong_code([each.token.id for each in sent])
        raise account_errors.CodeExpired
    return min(fitting, key=lambda each: each.token.token_type != TokenType.CONFIRMATION)


def _newest_secrets(identifier: str, *, types: tuple[TokenType, ...], audience: str) -> list[_SentSecret]:
    """At most one of each type."""
    found = queries.find_newest_tokens(identifier=identifier, aud=audience, token_types=[str(each) for each in types])
    return [
        _SentSecret(user=user, token=one_time_tokens.from_row(columns), is_only=waiting == 1)
        for user, columns, waiting in found
    ]


def _user_with_phone(number: str, *, type: str, audience: str) -> UserRecord:
    """Whose number it is when nothing is outstanding: a fixed code needs none."""
    user = queries.find_by("phone" if type == "sms" else "phone_change", number, aud=audience)
    if user is None:
        raise account_errors.CodeExpired
    return user

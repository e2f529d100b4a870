"""Redeeming what a message carried: its link or its code, once, for its purpose, by its address."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from accounts import errors
from accounts.users import identifiers, queries, records
from accounts.users.records import UserRecord
from accounts.verification import redemption
from accounts.verification.redemption import Proof, Verified
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import PKCE_PREFIX, StoredToken
from tokens.sessions import sign_in_metrics

# What a type is checked against; `email` stands for whichever of the two a client was sent.
_MAILED = {
    "signup": (TokenType.CONFIRMATION,),
    "invite": (TokenType.CONFIRMATION,),
    "recovery": (TokenType.RECOVERY,),
    "magiclink": (TokenType.RECOVERY,),
    "email": (TokenType.CONFIRMATION, TokenType.RECOVERY),
    "email_change": (TokenType.EMAIL_CHANGE_CURRENT, TokenType.EMAIL_CHANGE_NEW),
}
_TEXTED = {"sms": TokenType.CONFIRMATION, "phone_change": TokenType.PHONE_CHANGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The last secret of a type that went to an address or number."""

    user: UserRecord
    token: StoredToken
    is_only: bool
    """Nobody else waits for one of that type there."""


def _signed_in(done: Verified) -> UUID | None:
    return done.user.id if done.tokens is not None else None


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def open_link(*, type: str, token: str, caller: Caller, at: datetime) -> Verified:
    """Redeem a link as a browser opens it: a session, or a code when the link belongs to a PKCE flow."""
    pkce = token.startswith(PKCE_PREFIX)
    if pkce and type == "email":
        raise errors.InvalidEmailVerificationType
    proof = _by_link(type=type, token=token, at=at)
    return redemption.redeem(proof, password=None, by_browser=True, pkce=pkce, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_link(*, type: str, token: str, password: str | None, caller: Caller, at: datetime) -> Verified:
    """Redeem the token of a link that a client posts: always a session."""
    proof = _by_link(type=type, token=token, at=at)
    return redemption.redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_mailed_code(
    *, type: str, email: str, code: str, password: str | None, caller: Caller, at: datetime
) -> Verified:
    """Redeem a code typed by hand, with the address it was sent to. Raises CodeExpired for anything that does not fit.

    A code is compared with the last that was sent there for its purpose: were it with all, whoever lets many accounts
    wait for one address would guess at all of them at once. A wrong one is counted on what it was compared with.
    """
    try:
        address = identifiers.email(email)
    except ApiError:
        raise errors.InvalidEmailFormat from None
    found = _fitting(_sent_to(address, types=_MAILED.get(type, ()), audience=caller.audience), code=code)
    if found.user.is_banned(at):
        raise errors.UserBanned
    if not found.token.is_fresh(at):
        raise errors.CodeExpired
    proof = Proof(user=found.user, token=found.token, by_code=True, asked=type, refusal=errors.CodeExpired)
    return redemption.redeem(proof, password=password, by_browser=False, pkce=False, caller=caller, at=at)


@sign_in_metrics.measure_sign_in("otp", user_id=_signed_in)
def redeem_texted_code(*, type: str, phone: str, code: str, caller: Caller, at: datetime) -> Verified:
    """The same for a code that was texted. A number's fixed code is good at any time; a gateway may check its own."""
    number = identifiers.phone(phone)
    if type not in _TEXTED:
        raise errors.CodeExpired
    sent = _sent_to(number, types=(_TEXTED[type],), audience=caller.audience)
    fixed = conf.current().sms.test_code(number, at=at)
    by_code = False
    if fixed is not None and crypto.constant_time_equal(fixed, code):
        found = sent[0] if sent else None
    elif conf.current().sms.provider == "twilio_verify":
        verifier = messaging.phone_verifier.get()
        # The gateway knows the number alone: with two users waiting for it, nobody could say whose code this is.
        if not sent or not sent[0].is_only or not verifier.is_approved(phone=number, code=code):
            raise errors.CodeExpired
        found = sent[0]
    else:
        found, by_code = _fitting(sent, code=code), True
        if not found.token.is_fresh(at):
            raise errors.CodeExpired
    user = found.user if found else _waiting_for(number, type=type, audience=caller.audience)
    if user.is_banned(at):
        raise errors.UserBanned
    token = found.token if found else None
    proof = Proof(user=user, token=token, by_code=by_code, asked=type, refusal=errors.CodeExpired)
    return redemption.redeem(proof, password=None, by_browser=False, pkce=False, caller=caller, at=at)


def _by_link(*, type: str, token: str, at: datetime) -> Proof:
    if type not in _MAILED:
        raise errors.InvalidEmailVerificationType
    row = queries.with_token_of_link(
        link_hash=crypto.hash_link_token(token), token_types=[str(each) for each in _MAILED[type]]
    )
    if row is None:
        raise errors.LinkExpired
    user, found = _read(row)
    if user.is_banned(at):
        raise errors.UserBanned
    if not found.is_fresh(at):
        raise errors.LinkExpired
    return Proof(user=user, token=found, asked=type, refusal=errors.LinkExpired)


def _fitting(sent: list[_Sent], *, code: str) -> _Sent:
    """The secret that this code is. Raises CodeExpired, having counted a wrong code."""
    fitting = [each for each in sent if each.token.matches(code)]
    if not fitting:
        if sent:
            one_time_tokens.record_wrong_code([each.token.id for each in sent])
        raise errors.CodeExpired
    return min(fitting, key=lambda each: each.token.token_type != TokenType.CONFIRMATION)


def _sent_to(identifier: str, *, types: tuple[TokenType, ...], audience: str) -> list[_Sent]:
    """At most one of each type."""
    rows = queries.with_newest_tokens_sent_to(
        identifier=identifier, aud=audience, token_types=[str(each) for each in types]
    )
    found = [(*_read(row[:-1]), row[-1]) for row in rows]
    return [_Sent(user=user, token=token, is_only=waiting == 1) for user, token, waiting in found]


def _waiting_for(number: str, *, type: str, audience: str) -> UserRecord:
    """Whose number it is when nothing is outstanding: a fixed code needs none."""
    row = queries.by_phone(number, aud=audience) if type == "sms" else queries.by_phone_change(number, aud=audience)
    if row is None:
        raise errors.CodeExpired
    return records.read(row)


def _read(row: queries.Row) -> tuple[UserRecord, StoredToken]:
    return records.read(row), one_time_tokens.from_row(row[queries.USER_WIDTH :])

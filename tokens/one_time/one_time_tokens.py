"""One-time secrets: a code and a link that are one row, issued for a purpose, spent once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F

from authsvc import conf
from authsvc.security import crypto
from tokens import queries
from tokens.models import OneTimeToken, TokenType

PKCE_MARK = "pkce_"
_MOST_COUNTED = 32_767
"""Where the column ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What goes into the message and is not stored: the code, and the token of the link with its PKCE mark.

    A code that travels alone has no token, `""`.
    """

    code: str = field(repr=False)
    link_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """A stored one-time token as read."""

    id: UUID
    token_type: str
    token_hash: str = field(repr=False)
    relates_to: str
    """The address or number it was sent to."""
    created_at: datetime
    attempts: int

    def is_fresh(self, at: datetime) -> bool:
        """Whether the secret is still inside the life of what a mail, or a text message, carries."""
        mailed = "@" in self.relates_to
        return at <= self.created_at + (conf.current().mailer.otp_exp if mailed else conf.current().sms.otp_exp)

    def answers(self, code: str) -> bool:
        """Whether this is the code that was sent, and it has not been guessed at too often."""
        expected = self.token_hash.removeprefix(PKCE_MARK)
        fits = crypto.constant_time_equal(expected, crypto.hash_code(self.relates_to, code))
        return fits and self.attempts < _guesses(by_code=True)


def read(row: tuple[Any, ...]) -> Outstanding:
    """From the values of a row in the order of `Outstanding`."""
    id_, token_type, token_hash, relates_to, created_at, attempts = row
    return Outstanding(
        id=id_,
        token_type=token_type,
        token_hash=token_hash,
        relates_to=relates_to,
        created_at=created_at,
        attempts=attempts,
    )


def issue(*, user_id: UUID, token_type: TokenType, identifier: str, pkce: bool, at: datetime) -> Secret:
    """Make a mailed secret and store its digests in place of the former of that type. One statement."""
    secret = make(pkce=pkce)
    with transaction.atomic(savepoint=False):
        queries.store_one_time_token(
            digests(secret, token_type=token_type, identifier=identifier, at=at), user_id=user_id
        )
    return secret


def store_code(*, user_id: UUID, token_type: TokenType, identifier: str, code: str, at: datetime) -> None:
    """Store the digest of a code that travels without a link, in place of the former of that type. One statement."""
    secret = Secret(code=code, link_token="")
    with transaction.atomic(savepoint=False):
        queries.store_one_time_token(
            digests(secret, token_type=token_type, identifier=identifier, at=at), user_id=user_id
        )


def make(*, pkce: bool) -> Secret:
    """A new secret for a mail, stored nowhere yet."""
    code = crypto.generate_code(digits=conf.current().mailer.otp_length)
    return Secret(code=code, link_token=(PKCE_MARK if pkce else "") + crypto.generate_link_token())


def digests(secret: Secret, *, token_type: TokenType, identifier: str, at: datetime) -> queries.NewToken:
    """What is stored of a secret that goes to `identifier`."""
    mark = PKCE_MARK if secret.link_token.startswith(PKCE_MARK) else ""
    return {
        "token_id": uuid4(),
        "token_type": token_type,
        "token_hash": mark + crypto.hash_code(identifier, secret.code),
        "link_hash": crypto.hash_link_token(secret.link_token) if secret.link_token else None,
        "relates_to": identifier,
        "at": at,
    }


def find(*, user_id: UUID, token_type: TokenType) -> Outstanding | None:
    """The user's outstanding secret of a type."""
    row = OneTimeToken.objects.filter(user_id=user_id, token_type=token_type).first()
    if row is None:
        return None
    return Outstanding(
        id=row.id,
        token_type=row.token_type,
        token_hash=row.token_hash,
        relates_to=row.relates_to,
        created_at=row.created_at,
        attempts=row.attempts,
    )


def drop(*, user_id: UUID, token_type: TokenType) -> bool:
    """Delete the user's secret of a type; whether there was one. Joins the caller's transaction."""
    return bool(OneTimeToken.objects.filter(user_id=user_id, token_type=token_type).delete()[0])


def spend(token: Outstanding, *, user_id: UUID, by_code: bool) -> bool:
    """Delete this secret and with it every other of the user; False when another request was first.

    Also False, `by_code`, when other requests have used up its guesses since it was read. Joins the caller's
    transaction: of two, the second waits for the first to commit and then finds nothing.
    """
    with transaction.atomic(savepoint=False):
        return queries.spend_one_time_token(id=token.id, user_id=user_id, attempts_below=_guesses(by_code))


def take(token: Outstanding, *, by_code: bool) -> bool:
    """As `spend`, for this secret alone."""
    with transaction.atomic(savepoint=False):
        return queries.take_one_time_token(id=token.id, attempts_below=_guesses(by_code))


def clear(user_id: UUID) -> None:
    with transaction.atomic(savepoint=False):
        queries.delete_one_time_tokens(user_id)


def count_wrong_code(token_ids: list[UUID]) -> None:
    """Note a wrong code on each secret it was compared with."""
    OneTimeToken.objects.filter(id__in=token_ids, attempts__lt=_MOST_COUNTED).update(attempts=F("attempts") + 1)


def _guesses(by_code: bool) -> int:
    """How many wrong codes a secret bears: a link cannot be guessed."""
    return (conf.current().codes.max_attempts if by_code else 0) or _MOST_COUNTED + 1

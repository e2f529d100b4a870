"""One-time secrets: a code and a link that are one row, issued for a purpose, spent once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F

from authsvc.core import crypto
from tokens import queries
from tokens.models import OneTimeToken, TokenType

PKCE_MARK = "pkce_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What goes into the message and is not stored: the code, and the token of the link with its PKCE mark."""

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
        return at <= self.created_at + (settings.AUTH.mailer.otp_exp if mailed else settings.AUTH.sms.otp_exp)

    def answers(self, code: str) -> bool:
        """Whether this is the code that was sent, and it has not been guessed at too often."""
        limit = settings.AUTH.codes.max_attempts
        expected = self.token_hash.removeprefix(PKCE_MARK)
        return crypto.equal(expected, crypto.code_hash(self.relates_to, code)) and (not limit or self.attempts < limit)


def issue(*, user_id: UUID, token_type: TokenType, identifier: str, pkce: bool, at: datetime) -> Secret:
    """Make a mailed secret and store its digests in place of the former of that type. One statement."""
    code = crypto.random_code(digits=settings.AUTH.mailer.otp_length)
    link_token = (PKCE_MARK if pkce else "") + crypto.link_token()
    _store(user_id, token_type, identifier, code=code, pkce=pkce, link_token=link_token, at=at)
    return Secret(code=code, link_token=link_token)


def store_code(*, user_id: UUID, token_type: TokenType, identifier: str, code: str, at: datetime) -> None:
    """Store the digest of a code that travels without a link, in place of the former of that type. One statement."""
    _store(user_id, token_type, identifier, code=code, pkce=False, link_token=None, at=at)


def _store(
    user_id: UUID,
    token_type: TokenType,
    identifier: str,
    *,
    code: str,
    pkce: bool,
    link_token: str | None,
    at: datetime,
) -> None:
    with transaction.atomic(savepoint=False):
        queries.replace_one_time_token(
            id=uuid4(),
            user_id=user_id,
            token_type=token_type,
            token_hash=(PKCE_MARK if pkce else "") + crypto.code_hash(identifier, code),
            link_hash=crypto.link_hash(link_token) if link_token else None,
            relates_to=identifier,
            at=at,
        )


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


def spend(token: Outstanding, *, user_id: UUID) -> bool:
    """Delete this secret and with it every other of the user; False when another request was first.

    Joins the caller's transaction: of two, the second waits for the first to commit and then finds nothing.
    """
    with transaction.atomic(savepoint=False):
        return token.id in queries.delete_one_time_tokens(user_id)


def take(token: Outstanding) -> bool:
    """Delete this secret alone; False when another request was first. Joins the caller's transaction."""
    return bool(OneTimeToken.objects.filter(id=token.id).delete()[0])


def clear(user_id: UUID) -> None:
    with transaction.atomic(savepoint=False):
        queries.delete_one_time_tokens(user_id)


def count_wrong_code(token_ids: list[UUID]) -> None:
    """Note a wrong code on each secret it could have been for; the column ends at 32,767."""
    OneTimeToken.objects.filter(id__in=token_ids, attempts__lt=32_767).update(attempts=F("attempts") + 1)

"""One-time tokens: one row for a code and a link with the same purpose; valid for one use."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, TypedDict
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F

from authsvc import conf
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.security import crypto
from tokens.models import OneTimeToken, TokenType

PKCE_PREFIX = "pkce_"
EMAIL_CHANGE_TYPES = (TokenType.EMAIL_CHANGE_CURRENT, TokenType.EMAIL_CHANGE_NEW)
PHONE_CHANGE_TYPES = (TokenType.PHONE_CHANGE,)
_PLAIN_DIGEST_LENGTH = 56
_MAX_ATTEMPTS = 32_767
"""The largest value of the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeSecret:
    """The secrets in a message, which are not stored: the code, and the token of the link with its PKCE prefix.

    `link_token` is `""` for a code without a link.
    """

    code: str = field(repr=False)
    link_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A row of a one-time token."""

    id: UUID
    token_type: str
    token_hash: str = field(repr=False)
    relates_to: str
    """The recipient: an email address or a phone number."""
    created_at: datetime
    attempts: int

    def is_fresh(self, at: datetime) -> bool:
        """True if the lifetime of codes in emails, or in SMS, has not passed."""
        is_email = "@" in self.relates_to
        return at <= self.created_at + (conf.current().mailer.otp_exp if is_email else conf.current().sms.otp_exp)

    def matches(self, code: str) -> bool:
        """True if this is the code, and the number of wrong codes is below the limit."""
        expected = self.token_hash.removeprefix(PKCE_PREFIX)
        # A former version has stored the plain digest. Its code is valid until it expires.
        is_plain = len(expected) == _PLAIN_DIGEST_LENGTH
        digest = (crypto.plain_code_digest if is_plain else crypto.hash_code)(self.relates_to, code)
        is_equal = crypto.constant_time_equal(expected, digest)
        return is_equal and self.attempts < _attempt_limit(by_code=True)


class NewToken(TypedDict):
    """The parameters of `upsert_sql`; hashes in hex."""

    token_id: UUID
    token_type: str
    token_hash: str
    link_hash: str | None
    relates_to: str
    at: datetime


def from_row(row: tuple[Any, ...]) -> StoredToken:
    """From the values of a row in the order of the fields of StoredToken."""
    id_, token_type, token_hash, relates_to, created_at, attempts = row
    return StoredToken(
        id=id_,
        token_type=token_type,
        token_hash=token_hash,
        relates_to=relates_to,
        created_at=created_at,
        attempts=attempts,
    )


def issue(*, user_id: UUID, token_type: TokenType, identifier: str, pkce: bool, at: datetime) -> OneTimeSecret:
    """Generate the secrets of an email and store their hashes in place of the previous token. One statement."""
    secret = generate(pkce=pkce)
    _store(hash_secret(secret, token_type=token_type, identifier=identifier, at=at), user_id=user_id)
    return secret


def store_code(*, user_id: UUID, token_type: TokenType, identifier: str, code: str, at: datetime) -> None:
    """Store the hash of a code without a link in place of the previous token of that type. One statement."""
    secret = OneTimeSecret(code=code, link_token="")
    _store(hash_secret(secret, token_type=token_type, identifier=identifier, at=at), user_id=user_id)


def _store(token: NewToken, *, user_id: UUID) -> None:
    with transaction.atomic(savepoint=False):
        fetch_rows(upsert_sql("%(user_id)s"), {**token, "user_id": user_id})


@cache
def upsert_sql(user_id: str, source: str = "") -> str:
    """SQL that stores a one-time token and replaces the user's previous token of that type, including its id.

    `user_id` is an SQL expression, over the rows of `source` if that is given; the parameters are those of NewToken.
    """
    return f"""
        INSERT INTO {namespaced("one_time_tokens")}
            (id, user_id, token_type, token_hash, link_hash, relates_to, attempts, created_at, updated_at)
        SELECT %(token_id)s, {user_id}, %(token_type)s, %(token_hash)s, %(link_hash)s, %(relates_to)s, 0,
            %(at)s, %(at)s {source}
        ON CONFLICT (user_id, token_type) DO UPDATE SET
            id = EXCLUDED.id, token_hash = EXCLUDED.token_hash, link_hash = EXCLUDED.link_hash,
            relates_to = EXCLUDED.relates_to, attempts = 0, created_at = EXCLUDED.created_at,
            updated_at = EXCLUDED.updated_at
    """


def generate(*, pkce: bool) -> OneTimeSecret:
    """Generate the secrets of an email without storing them."""
    code = crypto.generate_code(digits=conf.current().mailer.otp_length)
    return OneTimeSecret(code=code, link_token=(PKCE_PREFIX if pkce else "") + crypto.generate_link_token())


def hash_secret(secret: OneTimeSecret, *, token_type: TokenType, identifier: str, at: datetime) -> NewToken:
    """The values to store for a secret that is sent to `identifier`."""
    prefix = PKCE_PREFIX if secret.link_token.startswith(PKCE_PREFIX) else ""
    return {
        "token_id": uuid4(),
        "token_type": token_type,
        "token_hash": prefix + crypto.hash_code(identifier, secret.code),
        "link_hash": crypto.hash_link_token(secret.link_token) if secret.link_token else None,
        "relates_to": identifier,
        "at": at,
    }


def find(*, user_id: UUID, token_type: TokenType) -> StoredToken | None:
    """The user's token of a type."""
    row = OneTimeToken.objects.filter(user_id=user_id, token_type=token_type).first()
    if row is None:
        return None
    return StoredToken(
        id=row.id,
        token_type=row.token_type,
        token_hash=row.token_hash,
        relates_to=row.relates_to,
        created_at=row.created_at,
        attempts=row.attempts,
    )


def delete(*, user_id: UUID, token_type: TokenType) -> bool:
    """Delete the user's token of a type; False when there was none. Joins the caller's transaction."""
    return bool(OneTimeToken.objects.filter(user_id=user_id, token_type=token_type).delete()[0])


def consume_all(token: StoredToken, *, user_id: UUID, by_code: bool, kept: Collection[TokenType] = ()) -> bool:
    """Delete this token and all other tokens of the user; False when another request has deleted it.

    Other tokens of the types in `kept` are not deleted. Also False with `by_code` when other requests have reached the
    limit of wrong codes since it was read; the token is kept then. One statement, which waits for concurrent updates
    of the row; joins the caller's transaction.
    """
    sql = f"""
        DELETE FROM {namespaced("one_time_tokens")} WHERE user_id = %s
            AND CASE WHEN id = %s THEN attempts < %s ELSE token_type <> ALL(%s) END RETURNING id
    """  # noqa: S608  (own table names)
    values = (user_id, token.id, _attempt_limit(by_code), [str(token_type) for token_type in kept])
    with transaction.atomic(savepoint=False):
        return (token.id,) in fetch_rows(sql, values)


def consume(token: StoredToken, *, by_code: bool) -> bool:
    """As `consume_all`, for this token alone."""
    consumable = OneTimeToken.objects.filter(id=token.id, attempts__lt=_attempt_limit(by_code))
    return bool(consumable._raw_delete("default"))


def delete_all(user_id: UUID, *, kept: Collection[TokenType] = ()) -> None:
    """Delete all one-time tokens of a user, except types in `kept`. One statement; joins the caller's transaction."""
    OneTimeToken.objects.filter(user_id=user_id).exclude(token_type__in=kept)._raw_delete("default")


def delete_sent_to(identifier: str, *, user_id: UUID) -> None:
    """Delete the tokens that were sent to this address or phone for the user. Must run inside a transaction."""
    with transaction.atomic(savepoint=False):
        OneTimeToken.objects.filter(user_id=user_id, relates_to=identifier).delete()


def record_wrong_code(token_ids: list[UUID]) -> None:
    """Count a wrong code on each token that it was compared with."""
    OneTimeToken.objects.filter(id__in=token_ids, attempts__lt=_MAX_ATTEMPTS).update(attempts=F("attempts") + 1)


def key_stored_digests(table: str) -> None:
    """Replace the digests of another server, in a table with the columns of one-time tokens, by keyed ones."""
    code = f"'pkce_' || {crypto.key_digest_sql('substr(token_hash, 6)')}"
    fetch_rows(
        f"""
        UPDATE {table} SET link_hash = {crypto.key_digest_sql("link_hash")},
            token_hash = CASE WHEN starts_with(token_hash, 'pkce_') THEN {code}
                ELSE {crypto.key_digest_sql("token_hash")} END
        """,  # noqa: S608  (own table names)
        crypto.digest_key_pads(),
    )


def _attempt_limit(by_code: bool) -> int:
    """The number of wrong codes that invalidates a token; unlimited for links, which cannot be guessed."""
    return (conf.current().codes.max_attempts if by_code else 0) or _MAX_ATTEMPTS + 1

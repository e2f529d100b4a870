"""Look-ups of users by their columns, sessions and tokens: hand-written SQL, one prepared statement for each."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal
from uuid import UUID

import orjson

from accounts import errors
from accounts.models import Identity, User
from accounts.users import failed_attempts, records
from accounts.users.records import USER_WIDTH, Row, UserRecord, user_columns
from authsvc.db.sql import fetch_row, fetch_rows, namespaced
from tokens.jwt.access_tokens import AmrEntry
from tokens.models import TokenType
from tokens.sessions.users import EPOCH, SessionRecord, SignedInUser, TokenUser

_SESSION = (
    "id user_id created_at refreshed_at not_after aal tag oauth_client_id scopes resource refresh_token_hmac_key"
    " refresh_token_counter impersonator_id impersonator_session_id"
).split()
_TOKEN = "id token_type token_hash relates_to created_at attempts".split()


def get(user_id: UUID) -> UserRecord | None:
    """The user with this id, soft-deleted or not."""
    row = fetch_row(_select("WHERE u.id = %s"), (user_id,))
    return records.read(row) if row else None


def lock(user_id: UUID) -> UserRecord | None:
    """The user with this id, unless soft-deleted; the row stays locked until the caller's transaction is over."""
    row = fetch_row(_select("WHERE u.id = %s AND u.deleted_at IS NULL FOR UPDATE OF u"), (user_id,))
    return records.read(row) if row else None


def require(user_id: UUID) -> UserRecord:
    """As `get`, for soft-deleted users and every audience too. Raises UserNotFound."""
    user = get(user_id)
    if user is None:
        raise errors.UserNotFound
    return user


def reread(user: UserRecord) -> UserRecord:
    """The row as it is now; `user` itself if it no longer exists. One statement."""
    return get(user.id) or user


def find_by(column: Literal["email", "phone", "phone_change"], value: str, *, aud: str | None) -> UserRecord | None:
    """The user with this normalised address or number, within an audience, or in any when `aud` is None.

    It does not find users who are managed by SSO.
    """
    condition = f"WHERE u.{column} = %s AND NOT u.is_sso_user"
    row = (
        fetch_row(_select(condition), (value,))
        if aud is None
        else fetch_row(_select(f"{condition} AND u.aud = %s"), (value, aud))
    )
    return records.read(row) if row else None


def find_with_failures(column: Literal["email", "phone"], value: str, *, aud: str) -> tuple[UserRecord, int] | None:
    """As `find_by`, with the number of wrong passwords and codes of the account. One statement."""
    condition = f"WHERE u.{column} = %s AND NOT u.is_sso_user AND u.aud = %s"
    row = fetch_row(_select(condition, failed_attempts.count_column()), (value, aud))
    return (records.read(row), row[USER_WIDTH]) if row else None


def find_claimant(column: Literal["email", "phone"], value: str, *, aud: str) -> UserRecord | None:
    """As `find_by`, but only the account that a proof of the email or phone may lead into (`account_claiming`)."""
    user = find_by(column, value, aud=aud)
    return None if user is None or user.has_unproven_claim(column) else user


def find_by_identity(*, provider: str, provider_id: str) -> tuple[UserRecord, UUID] | None:
    """The user with this identity, and the id of the identity."""
    row = fetch_row(
        _select(
            f"JOIN {namespaced('identities')} i ON i.user_id = u.id WHERE i.provider_id = %s AND i.provider = %s",
            "i.id",
        ),
        (provider_id, provider),
    )
    return (records.read(row), row[USER_WIDTH]) if row else None


def find_by_link(
    *, link_hash: str, plain_digest: str | None = None, token_types: list[str]
) -> tuple[UserRecord, Row] | None:
    """The user to whom this link was sent, and the columns of its one-time token.

    `plain_digest` is the digest that a former version has stored. Its link is valid until it expires.
    """
    row = fetch_row(
        _select(
            f"JOIN {namespaced('one_time_tokens')} t ON t.user_id = u.id"
            " WHERE t.link_hash IN (%s, %s::text) AND t.token_type = ANY(%s) AND u.deleted_at IS NULL",
            _columns("t", _TOKEN),
        ),
        (link_hash, plain_digest, token_types),
    )
    return (records.read(row), row[USER_WIDTH:]) if row else None


def find_newest_tokens(*, identifier: str, aud: str, token_types: list[str]) -> list[tuple[UserRecord, Row, int]]:
    """For each of these types the one-time token that was sent last to this address or number.

    Each comes with its user and with the number of users who wait for a token of that type there.
    """
    newest = (
        "(SELECT DISTINCT ON (t.token_type) t.*, count(*) OVER (PARTITION BY t.token_type) AS waiting"
        f" FROM {namespaced('one_time_tokens')} t JOIN {namespaced('users')} u ON u.id = t.user_id"
        " WHERE t.relates_to = %s AND u.aud = %s AND NOT u.is_sso_user AND u.deleted_at IS NULL"
        " AND t.token_type = ANY(%s)"
        " ORDER BY t.token_type, t.created_at DESC, t.id)"
    )
    rows = fetch_rows(
        _select(f"JOIN {newest} t ON t.user_id = u.id", f"{_columns('t', _TOKEN)}, t.waiting"),
        (identifier, aud, token_types),
    )
    return [(records.read(row), row[USER_WIDTH:-1], row[-1]) for row in rows]


def is_email_taken(email: str, *, except_user: UUID | None = None) -> bool:
    """True if an account other than `except_user` has this address or an identity with it, in any audience.

    Identities of SSO do not count, because they are not found by address. One statement.
    """
    users, identities = User.objects.with_email(email), Identity.objects.with_email(email)
    if except_user is not None:
        users, identities = users.exclude(id=except_user), identities.exclude(user_id=except_user)
    return users.values("id").union(identities.values("user_id"), all=True).exists()


@cache
def _insert_user() -> str:
    return f"""
        WITH made AS (
            INSERT INTO {namespaced("users")} (id, aud, role, email, phone, encrypted_password, email_confirmed_at,
                phone_confirmed_at, confirmation_sent_at, raw_app_meta_data, raw_user_meta_data, email_change,
                phone_change, email_change_confirm_status, is_sso_user, is_anonymous, created_at, updated_at)
            VALUES (%(id)s, %(aud)s, %(role)s, %(email)s, %(phone)s, %(password)s, %(email_confirmed_at)s,
                %(phone_confirmed_at)s, %(confirmation_sent_at)s, %(app_metadata)s::jsonb, %(user_metadata)s::jsonb, '',
                '', 0, false, false, %(at)s, %(at)s)
        )
        INSERT INTO {namespaced("identities")} (id, provider_id, user_id, identity_data, provider, last_sign_in_at,
            created_at, updated_at)
        VALUES (%(identity_id)s, %(id)s::text, %(id)s, %(identity_data)s::jsonb, %(provider)s, %(at)s, %(at)s, %(at)s)
    """


def insert_user(**values: Any) -> None:
    """Insert a user with an email address or phone and the identity of that kind. One statement.

    The names of `values` are those in the statement; JSON values are text. Raises IntegrityError when another account
    has the address or phone.
    """
    fetch_rows(_insert_user(), values)


@cache
def _remove_sign_up_data() -> str:
    users, identities = namespaced("users"), namespaced("identities")
    own = "('sub', 'email', 'email_verified', 'phone_verified')"
    # The user's row before those of the identities, as everywhere. The database runs the main statement first.
    return f"""
        WITH locked AS (
            SELECT id FROM {users} WHERE id = %(user_id)s FOR NO KEY UPDATE
        ), cleaned AS (
            UPDATE {users} u SET raw_user_meta_data = (
                SELECT coalesce(jsonb_object_agg(m.key, m.value), '{{}}'::jsonb) FROM jsonb_each(u.raw_user_meta_data) m
                WHERE m.key IN {own} OR NOT EXISTS (
                    SELECT FROM {identities} i WHERE i.user_id = u.id AND i.identity_data -> m.key = m.value))
            FROM locked WHERE u.id = locked.id AND jsonb_typeof(u.raw_user_meta_data) = 'object'
        )
        UPDATE {identities} i SET identity_data = (
            SELECT coalesce(jsonb_object_agg(d.key, d.value), '{{}}'::jsonb) FROM jsonb_each(i.identity_data) d
            WHERE d.key IN {own} OR (d.key = 'phone' AND i.provider = 'phone'))
        FROM locked WHERE i.user_id = locked.id AND i.provider IN ('email', 'phone')
    """


def remove_sign_up_data(user_id: UUID) -> None:
    """Remove the data that sign-ups and providers have stored in the metadata of an unconfirmed account.

    Metadata that an administrator has set stays, because it is in no identity. One statement; must run inside a
    transaction.
    """
    fetch_rows(_remove_sign_up_data(), {"user_id": user_id})


@cache
def _insert_identity() -> str:
    return f"""
        INSERT INTO {namespaced("identities")} (id, provider_id, user_id, identity_data, provider, last_sign_in_at,
            created_at, updated_at)
        SELECT %(id)s, %(provider_id)s, u.id, %(identity_data)s::jsonb, %(provider)s, %(at)s, %(at)s, %(at)s
        FROM {namespaced("users")} u WHERE u.id = %(user_id)s AND u.deleted_at IS NULL FOR KEY SHARE
        RETURNING id
    """


def insert_identity(**values: Any) -> bool:
    """Insert an identity; False when the user does not exist or is soft-deleted. One statement.

    It waits for a deletion that has begun. The names of `values` are those in the statement; `identity_data` is text.
    Raises IntegrityError when an account has the identity.
    """
    return fetch_row(_insert_identity(), values) is not None


@cache
def _withdraw_pending_changes() -> str:
    return f"""
        WITH withdrawn AS (
            DELETE FROM {namespaced("one_time_tokens")}
            WHERE user_id = %(user_id)s AND token_type = ANY(%(token_types)s)
        ), abandoned AS (
            DELETE FROM {namespaced("flow_state")} WHERE linking_target_id = %(user_id)s AND user_id IS NULL
        )
        UPDATE {namespaced("users")} SET email_change = '', phone_change = '', email_change_confirm_status = 0
        WHERE id = %(user_id)s AND (email_change <> '' OR phone_change <> '')
    """


def withdraw_pending_changes(user_id: UUID) -> None:
    """Withdraw the unconfirmed changes of email and phone and the unfinished flows that link an identity.

    One statement. Must run inside a transaction that has locked the user's row.
    """
    types = [TokenType.EMAIL_CHANGE_NEW, TokenType.EMAIL_CHANGE_CURRENT, TokenType.PHONE_CHANGE]
    fetch_rows(_withdraw_pending_changes(), {"user_id": user_id, "token_types": [str(type) for type in types]})


class AccountUsers:
    """Reads users and sessions for `tokens` (`tokens.sessions.users.UserSource`)."""

    def find_user(self, user_id: UUID) -> UserRecord | None:
        row = fetch_row(_select("WHERE u.id = %s AND u.deleted_at IS NULL"), (user_id,))
        return records.read(row) if row else None

    def find_signed_in_user(self, *, user_id: UUID, session_id: UUID | None) -> SignedInUser | None:
        sessions = namespaced("sessions")
        join = f"LEFT JOIN {sessions} s ON s.user_id = u.id AND s.id = %s AND u.deleted_at IS NULL WHERE u.id = %s"
        row = fetch_row(_select(join, _session_columns()), (session_id, user_id))
        return _signed_in_user(row) if row else None

    def find_by_session(self, session_id: UUID) -> SignedInUser | None:
        join = f"JOIN {namespaced('sessions')} s ON s.user_id = u.id WHERE s.id = %s AND u.deleted_at IS NULL"
        row = fetch_row(_select(join, _session_columns()), (session_id,))
        return _signed_in_user(row) if row else None

    def record_sign_in(self, user: TokenUser, *, at: datetime) -> UserRecord:
        User.objects.filter(id=user.id).update(last_sign_in_at=at, updated_at=at)
        return dataclasses.replace(_as_record(user), last_sign_in_at=at, updated_at=at)

    def user_json(self, user: TokenUser) -> dict[str, Any]:
        return records.render_user(_as_record(user))


def signed_in_columns() -> str:
    """The select list of a user `u` with a session `s`, for statements of other apps."""
    return f"{user_columns()}, {_session_columns()}"


def read_signed_in_user(row: Row) -> SignedInUser | None:
    """The user and session of a row with the columns of `signed_in_columns`; None without a user."""
    return None if row[0] is None else _signed_in_user(row)


def get_user_record(signed_in: SignedInUser) -> UserRecord:
    """The user of a session that `AccountUsers` has read."""
    return _as_record(signed_in.user)


def _signed_in_user(row: Row) -> SignedInUser:
    session, amr = _read_session(row[USER_WIDTH:])
    return SignedInUser(user=records.read(row), session=session, amr=amr)


def _as_record(user: TokenUser) -> UserRecord:
    if not isinstance(user, UserRecord):
        raise TypeError("the user was not read by AccountUsers")
    return user


def _read_session(row: Row) -> tuple[SessionRecord | None, tuple[AmrEntry, ...]]:
    """The session and its methods from the columns of `_session_columns`; None without a session."""
    (
        id_, user_id, created_at, refreshed_at, not_after, aal, tag, oauth_client_id, scopes, resource, key, counter,
        impersonator_id, impersonator_session_id, methods,
    ) = row  # fmt: skip
    if id_ is None:
        return None, ()
    session = SessionRecord(
        id=id_,
        user_id=user_id,
        created_at=created_at or EPOCH,
        refreshed_at=refreshed_at,
        not_after=not_after,
        aal=aal or "aal1",
        tag=tag,
        oauth_client_id=oauth_client_id,
        scopes=scopes,
        resource=resource,
        refresh_token_hmac_key=key,
        refresh_token_counter=counter,
        impersonator_id=impersonator_id,
        impersonator_session_id=impersonator_session_id,
    )
    entries = orjson.loads(methods) if methods else []
    return session, tuple(AmrEntry(method=method, at=datetime.fromtimestamp(at, UTC)) for method, at in entries)


@cache
def _select(condition: str, columns: str = "") -> str:
    return f"SELECT {user_columns()}{columns and ', '}{columns} FROM {namespaced('users')} u {condition}"


def _columns(table: str, names: list[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


@cache
def _session_columns() -> str:
    """The select list of a session `s`, with its methods as a JSON array of [method, epoch seconds] at its end."""
    methods = (
        "(SELECT json_agg(json_build_array(a.authentication_method, extract(epoch FROM a.updated_at)))::text"
        f" FROM {namespaced('mfa_amr_claims')} a WHERE a.session_id = s.id)"
    )
    return f"{_columns('s', _SESSION)}, {methods}"

"""The hot statements of accounts as hand-written SQL: a user with identities, factors and, where asked, a session.

Metadata and `identity_data` travel as JSON text and are never parsed on their way to the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from authsvc import audit
from authsvc.db.sql import namespaced, row, rows
from tokens.one_time import queries as one_time
from tokens.one_time.queries import NewToken

Row = tuple[Any, ...]

_USER = (
    "id aud role email phone encrypted_password email_confirmed_at phone_confirmed_at confirmed_at invited_at"
    " confirmation_sent_at recovery_sent_at email_change email_change_sent_at phone_change phone_change_sent_at"
    " reauthentication_sent_at last_sign_in_at raw_app_meta_data::text raw_user_meta_data::text is_anonymous"
    " is_sso_user banned_until deleted_at created_at updated_at"
).split()
USER_WIDTH = len(_USER) + 2

_SESSION = (
    "id user_id created_at refreshed_at not_after aal tag oauth_client_id scopes refresh_token_hmac_key"
    " refresh_token_counter"
).split()
SESSION_WIDTH = len(_SESSION) + 1

_ABANDONED_AT_ONCE = 1_000

_TOKEN = "id token_type token_hash relates_to created_at attempts".split()


def _stamp(column: str) -> str:
    # Written in wire form by the database, once, instead of parsed and written again here.
    return f"""to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


@cache
def user_columns() -> str:
    """The select list of a user `u`, ending in identities and factors as JSON arrays of arrays (NULL when none)."""
    identities = (
        "(SELECT json_agg(json_build_array(i.id, i.provider_id, i.identity_data::text, i.provider,"
        f" {_stamp('i.last_sign_in_at')}, {_stamp('i.created_at')}, {_stamp('i.updated_at')}, i.email)"
        f" ORDER BY i.created_at, i.id)::text FROM {namespaced('identities')} i WHERE i.user_id = u.id)"
    )
    return ", ".join([*(f"u.{name}" for name in _USER), identities, factors_column()])


@cache
def factors_column() -> str:
    """The factors of a user `u` as a JSON array of arrays, NULL when there are none."""
    return (
        "(SELECT json_agg(json_build_array(f.id, f.friendly_name, f.factor_type, f.status, f.phone,"
        f" {_stamp('f.created_at')}, {_stamp('f.updated_at')}, {_stamp('f.last_challenged_at')}, f.web_authn_aaguid)"
        f" ORDER BY f.created_at, f.id)::text FROM {namespaced('mfa_factors')} f WHERE f.user_id = u.id)"
    )


@cache
def _session_columns() -> str:
    """The select list of a session `s`, ending in its methods as a JSON array of [method, epoch seconds]."""
    methods = (
        "(SELECT json_agg(json_build_array(a.authentication_method, extract(epoch FROM a.updated_at)))::text"
        f" FROM {namespaced('mfa_amr_claims')} a WHERE a.session_id = s.id)"
    )
    return ", ".join([*(f"s.{name}" for name in _SESSION), methods])


@cache
def _select(what: str, *joins: str) -> str:
    return f"SELECT {what} FROM {' '.join(joins)}"


def _signed_in(condition: str, join: str) -> str:
    return _select(
        f"{user_columns()}, {_session_columns()}",
        f"{namespaced('users')} u {join} {namespaced('sessions')} s ON s.user_id = u.id {condition}",
    )


def user_and_session(*, user_id: UUID, session_id: UUID | None) -> Row | None:
    """A user by id, with the session when it is there and theirs."""
    return row(_signed_in("AND s.id = %s WHERE u.id = %s", "LEFT JOIN"), (session_id, user_id))


def session_and_user(*, session_id: UUID) -> Row | None:
    return row(_signed_in("WHERE s.id = %s", "JOIN"), (session_id,))


def by_id(user_id: UUID) -> Row | None:
    return row(_select(user_columns(), f"{namespaced('users')} u WHERE u.id = %s"), (user_id,))


def by_email(email: str, *, aud: str | None) -> Row | None:
    """By normalised address; within an audience, or over all of them when `aud` is None."""
    if aud is None:
        return row(
            _select(user_columns(), f"{namespaced('users')} u WHERE u.email = %s AND NOT u.is_sso_user"), (email,)
        )
    return row(
        _select(user_columns(), f"{namespaced('users')} u WHERE u.email = %s AND NOT u.is_sso_user AND u.aud = %s"),
        (email, aud),
    )


def by_phone(phone: str, *, aud: str | None) -> Row | None:
    """By normalised number, as `by_email`."""
    if aud is None:
        return row(
            _select(user_columns(), f"{namespaced('users')} u WHERE u.phone = %s AND NOT u.is_sso_user"), (phone,)
        )
    return row(
        _select(user_columns(), f"{namespaced('users')} u WHERE u.phone = %s AND NOT u.is_sso_user AND u.aud = %s"),
        (phone, aud),
    )


def is_email_taken(email: str, *, but: UUID | None = None) -> bool:
    """Whether somebody, `but` this user, has this address or an identity with it, in whatever audience.

    Identities of SSO do not count: who comes in through one is known by no address.
    """
    sql = f"""
        SELECT EXISTS (SELECT FROM {namespaced("users")}
                       WHERE email = %s AND NOT is_sso_user AND id IS DISTINCT FROM %s)
            OR EXISTS (SELECT FROM {namespaced("identities")}
                       WHERE email = %s AND starts_with(provider, 'sso:') IS FALSE AND user_id IS DISTINCT FROM %s)
    """
    found = row(sql, (email, but, email, but))
    return bool(found and found[0])


def by_phone_change(phone: str, *, aud: str) -> Row | None:
    """By the number that a user wants to have."""
    return row(
        _select(
            user_columns(), f"{namespaced('users')} u WHERE u.phone_change = %s AND NOT u.is_sso_user AND u.aud = %s"
        ),
        (phone, aud),
    )


def with_token_of_link(*, link_hash: str, token_types: list[str]) -> Row | None:
    """A user followed by the one-time token that this link belongs to."""
    token = ", ".join(f"t.{name}" for name in _TOKEN)
    return row(
        _select(
            f"{user_columns()}, {token}",
            f"{namespaced('one_time_tokens')} t JOIN {namespaced('users')} u ON u.id = t.user_id"
            " WHERE t.link_hash = %s AND t.token_type = ANY(%s)",
        ),
        (link_hash, token_types),
    )


def with_newest_tokens_sent_to(*, identifier: str, aud: str, token_types: list[str]) -> list[Row]:
    """For each of these types the one-time token that was sent to this address or number last, after its user.

    Each row ends in the number of users who wait for a token of that type there.
    """
    token = ", ".join(f"t.{name}" for name in _TOKEN)
    newest = (
        "(SELECT DISTINCT ON (t.token_type) t.*, count(*) OVER (PARTITION BY t.token_type) AS waiting"
        f" FROM {namespaced('one_time_tokens')} t JOIN {namespaced('users')} u ON u.id = t.user_id"
        " WHERE t.relates_to = %s AND u.aud = %s AND NOT u.is_sso_user AND t.token_type = ANY(%s)"
        " ORDER BY t.token_type, t.created_at DESC, t.id)"
    )
    return rows(
        _select(
            f"{user_columns()}, {token}, t.waiting",
            f"{newest} t JOIN {namespaced('users')} u ON u.id = t.user_id",
        ),
        (identifier, aud, token_types),
    )


def empty_identities(provider_ids: Mapping[UUID, str], *, at: datetime) -> None:
    """Take what was said out of these identities (id → what becomes their subject). Joins the transaction."""
    sql = f"""
        UPDATE {namespaced("identities")} i SET identity_data = '{{}}', provider_id = o.provider_id, updated_at = %s
        FROM unnest(%s::uuid[], %s::text[]) o (id, provider_id) WHERE i.id = o.id
    """
    rows(sql, (at, list(provider_ids), list(provider_ids.values())))


def by_identity(*, provider: str, provider_id: str) -> Row | None:
    """The user behind an identity, followed by the identity's id."""
    return row(
        _select(
            f"{user_columns()}, i.id",
            f"{namespaced('identities')} i JOIN {namespaced('users')} u ON u.id = i.user_id"
            " WHERE i.provider_id = %s AND i.provider = %s",
        ),
        (provider_id, provider),
    )


def locked(user_id: UUID) -> Row | None:
    """A user, whom nobody changes until the caller's transaction is over."""
    return row(_select(user_columns(), f"{namespaced('users')} u WHERE u.id = %s FOR UPDATE OF u"), (user_id,))


def owners(emails: list[str]) -> list[Row]:
    """Who has one of these addresses: user id, provider (None for the account's own), address, verified, audience."""
    sql = f"""
        SELECT u.id, NULL, u.email, true, u.aud FROM {namespaced("users")} u
        WHERE u.email = ANY(%s) AND NOT u.is_sso_user
        UNION ALL
        SELECT u.id, i.provider, i.email, i.identity_data -> 'email_verified' = 'true'::jsonb, u.aud
        FROM {namespaced("identities")} i JOIN {namespaced("users")} u ON u.id = i.user_id WHERE i.email = ANY(%s)
    """
    return rows(sql, (emails, emails))


@cache
def _known_by() -> str:
    # Providers in the order in which somebody came to be known by them; of one, its oldest identity counts.
    providers = f"""
        SELECT jsonb_build_object('provider', jsonb_agg(p.provider ORDER BY p.since, p.id) -> 0,
                                  'providers', jsonb_agg(p.provider ORDER BY p.since, p.id))
        FROM (SELECT i.provider, min(i.created_at) since, min(i.id::text) id FROM {namespaced("identities")} i
              WHERE i.user_id = u.id GROUP BY i.provider) p HAVING count(*) > 0
    """
    return f"""
        UPDATE {namespaced("users")} u SET
            raw_app_meta_data = coalesce(u.raw_app_meta_data, '{{}}') || coalesce(({providers}), '{{}}'),
            raw_user_meta_data = (coalesce(u.raw_user_meta_data, '{{}}') || %s::jsonb) - %s::text[],
            last_sign_in_at = coalesce(%s, u.last_sign_in_at), updated_at = %s
        WHERE u.id = %s RETURNING {user_columns()}
    """


def known_by(*, user_id: UUID, said: str, unsaid: list[str], signed_in_at: datetime | None, at: datetime) -> Row | None:
    """Let a user's metadata say what their identities say: which there are, and what the last one has `said`.

    `said` is a JSON object, `unsaid` keys to delete. Returns the user as they are then, with their identities as they
    were before the statement.
    """
    return row(_known_by(), (said, unsaid, signed_in_at, at, user_id))


def delete_abandoned_factors(*, before: datetime) -> None:
    """Delete enrolments of all users, begun before this time, that nobody went on with: no challenge was ever made.

    Those that another request is working on are left to the next run, so that nobody waits.
    """
    factors = namespaced("mfa_factors")
    sql = f"""
        DELETE FROM {factors} WHERE id IN (
            SELECT f.id FROM {factors} f WHERE f.status = 'unverified' AND f.created_at < %s
                AND NOT EXISTS (SELECT FROM {namespaced("mfa_challenges")} c WHERE c.factor_id = f.id)
            ORDER BY f.created_at LIMIT {_ABANDONED_AT_ONCE} FOR UPDATE OF f SKIP LOCKED)
    """
    rows(sql, (before,))


def count_attempt(*, challenge_id: UUID, most: int) -> bool:
    """Count an answer to a challenge before it is looked at; False when there have been `most` already (0: no end)."""
    sql = f"""
        UPDATE {namespaced("mfa_challenges")} SET attempts = least(attempts + 1, 32767)
        WHERE id = %s AND (%s = 0 OR attempts < %s) RETURNING id
    """
    return row(sql, (challenge_id, most, most)) is not None


def take_passkey_challenge(
    challenge_id: UUID, *, type: str, user_id: UUID | None
) -> tuple[dict[str, Any], datetime] | None:
    """Delete a challenge of this type and user, or of nobody, and return its state and end: of many, one has it."""
    sql = f"""
        DELETE FROM {namespaced("webauthn_challenges")}
        WHERE id = %s AND challenge_type = %s AND user_id IS NOT DISTINCT FROM %s
        RETURNING session_data::text, expires_at
    """
    found = row(sql, (challenge_id, type, user_id))
    return (orjson.loads(found[0]), found[1]) if found else None


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
    """Insert a user known by an address or a number, with the identity of our own kind. One statement.

    Values by the names in the statement, JSON as text. Raises IntegrityError when somebody else has the address or
    number.
    """
    rows(_insert_user(), values)


@cache
def _repeat_sign_up(provider: str, stamped: str, is_nobodys: bool) -> str:
    proved = ("email", "phone") if is_nobodys else (provider,)
    return f"""
        WITH repeated AS (
            UPDATE {namespaced("users")} SET {stamped} = %(at)s, updated_at = %(at)s,
                encrypted_password = coalesce(%(password)s, encrypted_password),
                raw_user_meta_data = coalesce(%(user_metadata)s::jsonb, raw_user_meta_data)
            WHERE id = %(user_id)s AND {" AND ".join(f"{each}_confirmed_at IS NULL" for each in proved)}
            RETURNING id
        ), said AS (
            UPDATE {namespaced("identities")} i SET identity_data = %(identity_data)s::jsonb, updated_at = %(at)s
            FROM repeated WHERE i.user_id = repeated.id AND i.provider = %(provider)s
                AND %(identity_data)s::jsonb IS NOT NULL
        )
        SELECT id FROM repeated
    """


def repeat_sign_up(
    *,
    user_id: UUID,
    provider: str,
    stamped: str,
    is_nobodys: bool,
    password: str | None,
    user_metadata: str | None,
    identity_data: str | None,
    at: datetime,
) -> bool:
    """Write over an account whose address or number (`provider`) nobody has proved; False when somebody has by now.

    One that `is_nobodys` must have neither proved. The time goes into the column `stamped`; of the rest, JSON as text,
    what is None stays.
    """
    values = {
        "user_id": user_id,
        "provider": provider,
        "password": password,
        "user_metadata": user_metadata,
        "identity_data": identity_data,
        "at": at,
    }
    return row(_repeat_sign_up(provider, stamped, is_nobodys), values) is not None


@cache
def _note_request(sent_at: str) -> str:
    users = namespaced("users")
    asked = (
        f"UPDATE {users} SET {sent_at} = %(at)s, updated_at = %(at)s WHERE id = %(user_id)s RETURNING id"
        if sent_at
        else f"SELECT id FROM {users} WHERE id = %(user_id)s"
    )
    # The user's row is locked first, as everywhere. Without a user nothing is written, in about the same time.
    return f"""
        WITH asked AS ({asked}), noted AS (
            INSERT INTO {namespaced("audit_log_entries")} (id, payload, created_at, ip_address)
            SELECT %(entry_id)s, %(entry)s::jsonb, %(at)s, '' FROM asked WHERE %(entry)s::jsonb IS NOT NULL
        )
        {one_time.upsert_sql("asked.id", "FROM asked")}
    """


def note_request(*, user_id: UUID, sent_at: str, entry: audit.PendingEntry, token: NewToken) -> None:
    """Write what a request for a secret leaves behind: audit entry, digests, the time in the user's column `sent_at`.

    One statement. The time is left alone where `sent_at` is `""`, and nothing is written for a user that there is not.
    """
    values = {**token, "user_id": user_id, "entry_id": entry.id, "entry": entry.payload}
    rows(_note_request(sent_at), values)

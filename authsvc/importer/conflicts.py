"""Conflicts that reject an import, and warnings about data that will not work with the present settings."""

from __future__ import annotations

from collections.abc import Iterator

from authsvc import conf
from authsvc.db.sql import namespaced
from authsvc.importer import queries, table_definitions
from authsvc.importer.report import ImportRejected
from authsvc.security import hash_limits

_MAX_LISTED = 20
_UNIQUE_ADDRESSES = (("email", "NOT {}.is_sso_user", "email address"), ("phone", "true", "phone number"))
_READABLE_HASH = r"^(\$argon2id?\$|\$fbscrypt\$|\$2[a-z]?\$|\{)"
# Only short numbers are converted; longer ones are beyond every limit.
_COSTS = r"""
    SELECT encrypted_password AS stored, (substring(encrypted_password FROM '^\$2[a-z]?\$(\d\d)\$'))::int AS bcrypt,
        (substring(encrypted_password FROM '^\$argon2id?\$v=19\$m=(\d{1,9}),'))::bigint AS memory,
        (substring(encrypted_password FROM '^\$argon2id?\$v=19\$m=\d+,t=(\d{1,9}),'))::bigint AS time,
        (substring(encrypted_password FROM '^\$fbscrypt\$v=1,n=(\d{1,2}),'))::int AS n,
        (substring(encrypted_password FROM '^\$fbscrypt\$v=1,n=\d+,r=(\d{1,6}),'))::bigint AS r,
        (substring(encrypted_password FROM '^\$fbscrypt\$v=1,n=\d+,r=\d+,p=(\d{1,3})'))::bigint AS p
    FROM staged_users WHERE skip IS NULL AND encrypted_password <> '' AND encrypted_password !~ '^\{'
"""
_TOO_EXPENSIVE = f"""
    bcrypt > {hash_limits.MAX_BCRYPT_COST} OR memory > {hash_limits.MAX_ARGON2_MEMORY}
    OR time > {hash_limits.MAX_ARGON2_TIME} OR memory * time > {hash_limits.MAX_ARGON2_WORK}
    OR stored LIKE '$argon2%%' AND (memory IS NULL OR time IS NULL) OR stored LIKE '$fbscrypt%%'
    AND (n IS NULL OR n > 20 OR r IS NULL OR p IS NULL OR r * p * (1 << least(n, 20)) > {hash_limits.MAX_SCRYPT_WORK})
"""


def reject_shared_addresses() -> None:
    """Reject accounts of the source that share an address. Raises ImportRejected with their ids."""
    for column, condition, noun in _UNIQUE_ADDRESSES:
        groups = queries.execute(f"""
            SELECT string_agg(id::text, ' ' ORDER BY id) FROM staged_users x
            WHERE skip IS NULL AND {column} IS NOT NULL AND {condition.format("x")}
            GROUP BY {column} HAVING count(*) > 1 ORDER BY 1
        """)  # noqa: S608  (our own names)
        if groups:
            raise ImportRejected(_list_text(f"users at the source that share one {noun}", [ids for (ids,) in groups]))


def reject_occupied_addresses() -> None:
    """Reject accounts that exist only here and whose address a source account has. Raises ImportRejected."""
    for column, condition, noun in _UNIQUE_ADDRESSES:
        pairs = queries.execute(f"""
            SELECT t.id::text || ' here, ' || x.id::text || ' at the source'
            FROM {namespaced("users")} t JOIN staged_users x ON x.{column} = t.{column} AND x.skip IS NULL
            WHERE {condition.format("t")} AND {condition.format("x")}
                AND NOT EXISTS (SELECT FROM staged_users o WHERE o.id = t.id AND o.skip IS NULL)
            ORDER BY 1
        """)  # noqa: S608  (our own names)
        if pairs:
            title = (
                f"users here have the {noun} of a different user at the source"
                " (--delete-missing-users deletes users that the source does not have)"
            )
            raise ImportRejected(_list_text(title, [pair for (pair,) in pairs]))


def reject_if_in_use() -> None:
    """Reject a source that is older than sign-ins or refreshes in this database. Raises ImportRejected.

    Users have already been switched over, and another run would revert their sessions, passwords and changes.
    """
    ((last, number),) = queries.execute(f"""
        WITH last AS (SELECT greatest(
            (SELECT max(last_sign_in_at) FROM staged_users),
            (SELECT max(greatest(created_at, updated_at, refreshed_at)) FROM staged_sessions),
            (SELECT max(greatest(created_at, updated_at)) FROM staged_refresh_tokens)) AS at)
        SELECT max(last.at)::text, count(t.id) FROM last LEFT JOIN (
            {namespaced("sessions")} t JOIN staged_users u ON u.id = t.user_id AND u.skip IS NULL)
            ON last.at IS NULL OR greatest(t.created_at, t.refreshed_at) > last.at
    """)  # noqa: S608  (our own names)
    if number:
        since = f"after the last use of the source ({last})" if last else "and none at the source"
        raise ImportRejected(
            f"this database is already in use: {number:,} sessions of imported users here {since};"
            " --overwrite imports the source's state anyway"
        )


def warnings() -> Iterator[str]:
    """Imported data that will not work with the present settings."""
    yield from _unknown_hashes()
    yield from _expensive_hashes()
    yield from _large_metadata()
    yield from _missing_keys()
    yield from _other_audiences()


def _unknown_hashes() -> Iterator[str]:
    number = queries.count(
        "SELECT count(*) FROM staged_users"
        " WHERE skip IS NULL AND encrypted_password <> '' AND encrypted_password !~ %s",
        [_READABLE_HASH],
    )
    if number:
        yield f"{number:,} users have a password hash of an unknown format and must recover their password"


def _expensive_hashes() -> Iterator[str]:
    number = queries.count(f"SELECT count(*) FROM ({_COSTS}) x WHERE {_TOO_EXPENSIVE}")  # noqa: S608  (own text)
    if number:
        yield (
            f"{number:,} users have a password hash whose verification would cost more than a second and must recover"
            " their password"
        )


def _large_metadata() -> Iterator[str]:
    limits = conf.current().metadata
    number = queries.count(
        "SELECT count(*) FROM staged_users WHERE skip IS NULL AND (octet_length(raw_user_meta_data::text) > %s"
        " OR octet_length(raw_app_meta_data::text) > %s)",
        [limits.max_user_bytes, limits.max_app_bytes],
    )
    if number:
        yield (
            f"{number:,} users have metadata beyond AUTH_USER_METADATA_MAX_BYTES or AUTH_APP_METADATA_MAX_BYTES; it can"
            " only shrink, and access tokens over 48 KiB are refused"
        )


def _missing_keys() -> Iterator[str]:
    key_ids = conf.current().database.decryption_keys
    for table in table_definitions.TABLES:
        for column in table.encrypted:
            key_counts = queries.execute(f"""
                SELECT key_id, count(*) FROM (
                    SELECT substring({column} FROM '"key_id"\\s*:\\s*"([^"]*)"') AS key_id
                    FROM {queries.staging_table(table.name)} WHERE skip IS NULL AND {column} LIKE '{{%') x
                WHERE key_id IS NOT NULL GROUP BY 1 ORDER BY 1
            """)  # noqa: S608  (our own names)
            for key_id, number in key_counts:
                if key_id not in key_ids:
                    yield (
                        f"{table.name}.{column}: {number:,} rows are encrypted with the key {key_id!r}, which"
                        " AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS lacks, so they cannot be used"
                    )


def _other_audiences() -> Iterator[str]:
    audience = conf.current().jwt.aud
    number = queries.count("SELECT count(*) FROM staged_users WHERE skip IS NULL AND aud <> %s", [audience])
    if number:
        yield f"{number:,} users have an audience other than AUTH_JWT_AUD ({audience!r}), which GET /user requires"


def _list_text(title: str, lines: list[str]) -> str:
    more = [f"… and {len(lines) - _MAX_LISTED:,} more"] if len(lines) > _MAX_LISTED else []
    return "\n  ".join([f"{title}:", *lines[:_MAX_LISTED], *more])

"""What stands between the staged rows and ours: reasons to refuse them all, and what an operator should hear of."""

from __future__ import annotations

from collections.abc import Iterator

from authsvc import conf
from authsvc.db.sql import namespaced
from authsvc.importer import declarations, queries
from authsvc.importer.errors import ImportRefused

_SHOWN = 20
_UNIQUE = (("email", "NOT {}.is_sso_user", "e-mail address"), ("phone", "true", "phone number"))
_READABLE_HASH = r"^(\$argon2id?\$|\$fbscrypt\$|\$2[a-z]?\$|\{)"


def refuse_shared_addresses() -> None:
    """Two accounts at the source with one address, which no healthy source has. Raises ImportRefused with their ids."""
    for column, condition, noun in _UNIQUE:
        groups = queries.execute(f"""
            SELECT string_agg(id::text, ' ' ORDER BY id) FROM staged_users x
            WHERE skip IS NULL AND {column} IS NOT NULL AND {condition.format("x")}
            GROUP BY {column} HAVING count(*) > 1 ORDER BY 1
        """)  # noqa: S608  (our own names)
        if groups:
            raise ImportRefused(_listing(f"users at the source that share one {noun}", [ids for (ids,) in groups]))


def refuse_occupied_addresses() -> None:
    """Accounts here, unknown at the source, whose address the source gives to somebody. Raises ImportRefused."""
    for column, condition, noun in _UNIQUE:
        pairs = queries.execute(f"""
            SELECT t.id::text || ' here, ' || x.id::text || ' at the source'
            FROM {namespaced("users")} t JOIN staged_users x ON x.{column} = t.{column} AND x.skip IS NULL
            WHERE {condition.format("t")} AND {condition.format("x")}
                AND NOT EXISTS (SELECT FROM staged_users o WHERE o.id = t.id AND o.skip IS NULL)
            ORDER BY 1
        """)  # noqa: S608  (our own names)
        if pairs:
            title = (
                f"users here have the {noun} of somebody else at the source"
                " (--delete-missing-users deletes users that the source does not have)"
            )
            raise ImportRefused(_listing(title, [pair for (pair,) in pairs]))


def refuse_if_in_use() -> None:
    """People signed in or refreshed here after the last thing that happened at the source. Raises ImportRefused.

    Then the switch has been made, and another pass would take their sessions, passwords and changes back.
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
        raise ImportRefused(
            f"this database is in use already: {number:,} sessions of imported users here {since};"
            " --overwrite takes the source's state all the same"
        )


def warnings() -> Iterator[str]:
    """What will not work after the switch as things are configured."""
    yield from _unknown_hashes()
    yield from _missing_keys()
    yield from _other_audiences()


def _unknown_hashes() -> Iterator[str]:
    number = queries.count(
        "SELECT count(*) FROM staged_users"
        " WHERE skip IS NULL AND encrypted_password <> '' AND encrypted_password !~ %s",
        [_READABLE_HASH],
    )
    if number:
        yield f"{number:,} users have a password hash of an unknown kind and will have to recover their password"


def _missing_keys() -> Iterator[str]:
    known = conf.current().database.decryption_keys
    for table in declarations.TABLES:
        for column in table.sealed:
            found = queries.execute(f"""
                SELECT key_id, count(*) FROM (
                    SELECT substring({column} FROM '"key_id"\\s*:\\s*"([^"]*)"') AS key_id
                    FROM {queries.staged(table.name)} WHERE skip IS NULL AND {column} LIKE '{{%') x
                WHERE key_id IS NOT NULL GROUP BY 1 ORDER BY 1
            """)  # noqa: S608  (our own names)
            for key_id, number in found:
                if key_id not in known:
                    yield (
                        f"{table.name}.{column}: {number:,} rows are encrypted under the key {key_id!r}, which"
                        " AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS does not have: they cannot be used"
                    )


def _other_audiences() -> Iterator[str]:
    audience = conf.current().jwt.aud
    number = queries.count("SELECT count(*) FROM staged_users WHERE skip IS NULL AND aud <> %s", [audience])
    if number:
        yield f"{number:,} users have another audience than AUTH_JWT_AUD, {audience!r}, whose tokens GET /user expects"


def _listing(title: str, lines: list[str]) -> str:
    more = [f"… and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return "\n  ".join([f"{title}:", *lines[:_SHOWN], *more])

"""Sessions for the refresh tokens of a source from before there were any: one for each family that is still alive."""

from __future__ import annotations

from authsvc.importer import queries
from authsvc.importer.columns import made_id
from authsvc.importer.source import Source

_SESSION_ID = made_id("'session'", "f.user_id::text", "f.root::text")
_METHOD_ID = made_id("'method'", "s.id::text")


def are_missing(source: Source) -> bool:
    return bool(source.tables.get("refresh_tokens")) and not source.has("refresh_tokens", "session_id")


def make() -> tuple[int, int]:
    """Make them in the staging tables, with `password` as their method; how many sessions and how many methods.

    A family is a token and all that were exchanged for it. Tokens of a family in which each is revoked keep no session:
    they are refused when they are presented, as they would have been.
    """
    execute, changed = queries.execute, queries.changed
    execute("CREATE INDEX ON staged_refresh_tokens (parent)")
    execute("CREATE INDEX ON staged_refresh_tokens (token)")
    # Families can be thousands of tokens long, and each generation is a join: it must go by the index.
    execute("SET LOCAL enable_hashjoin = off")
    execute("SET LOCAL enable_mergejoin = off")
    execute(f"""
        CREATE TEMP TABLE staged_families ON COMMIT DROP AS
        WITH RECURSIVE family AS (
            SELECT r.id, r.token, r.user_id, r.id AS root FROM staged_refresh_tokens r
            WHERE r.skip IS NULL AND NOT EXISTS (
                SELECT FROM staged_refresh_tokens p WHERE p.token = r.parent AND p.user_id = r.user_id)
            UNION ALL
            SELECT r.id, r.token, r.user_id, f.root FROM family f
            JOIN staged_refresh_tokens r ON r.parent = f.token AND r.user_id = f.user_id AND r.skip IS NULL)
        SELECT f.id, {_SESSION_ID} AS session_id FROM family f
    """)  # noqa: S608  (our own expression)
    execute("SET LOCAL enable_hashjoin = on")
    execute("SET LOCAL enable_mergejoin = on")
    execute("ANALYZE staged_families")
    sessions = changed("""
        INSERT INTO staged_sessions (id, user_id, created_at, updated_at, aal)
        SELECT f.session_id, r.user_id, min(r.created_at), max(r.updated_at), 'aal1'
        FROM staged_families f JOIN staged_refresh_tokens r ON r.id = f.id
        GROUP BY f.session_id, r.user_id HAVING NOT bool_and(r.revoked)
    """)
    execute("""
        UPDATE staged_refresh_tokens r SET session_id = s.id
        FROM staged_families f JOIN staged_sessions s ON s.id = f.session_id WHERE r.id = f.id
    """)
    methods = changed(f"""
        INSERT INTO staged_mfa_amr_claims (id, session_id, authentication_method, created_at, updated_at)
        SELECT {_METHOD_ID}, s.id, 'password', coalesce(s.created_at, now()), coalesce(s.created_at, now())
        FROM staged_sessions s
    """)  # noqa: S608  (our own expression)
    return sessions, methods

"""Derives sessions for refresh tokens of old sources without sessions: one for each active token family."""

from __future__ import annotations

from authsvc.importer import queries
from authsvc.importer.column_rules import derived_id
from authsvc.importer.source_database import SourceDatabase

_SESSION_ID = derived_id("'session'", "f.user_id::text", "f.root::text")
_METHOD_ID = derived_id("'method'", "s.id::text")


def are_needed(source: SourceDatabase) -> bool:
    """True if the source has refresh tokens without sessions."""
    return bool(source.tables.get("refresh_tokens")) and not source.has("refresh_tokens", "session_id")


def derive_sessions() -> tuple[int, int]:
    """Insert sessions with the method `password` into the staging tables; returns the numbers of sessions and methods.

    A family is a token and all its successors. A family whose tokens are all revoked gets no session, so its tokens
    are rejected as before.
    """
    execute, execute_counted = queries.execute, queries.execute_counted
    execute("CREATE INDEX ON staged_refresh_tokens (parent)")
    execute("CREATE INDEX ON staged_refresh_tokens (token)")
    # Each generation is a join, and families can have thousands of generations, so the index must be used.
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
    sessions = execute_counted("""
        INSERT INTO staged_sessions (id, user_id, created_at, updated_at, aal)
        SELECT f.session_id, r.user_id, min(r.created_at), max(r.updated_at), 'aal1'
        FROM staged_families f JOIN staged_refresh_tokens r ON r.id = f.id
        GROUP BY f.session_id, r.user_id HAVING NOT bool_and(r.revoked)
    """)
    execute("""
        UPDATE staged_refresh_tokens r SET session_id = s.id
        FROM staged_families f JOIN staged_sessions s ON s.id = f.session_id WHERE r.id = f.id
    """)
    methods = execute_counted(f"""
        INSERT INTO staged_mfa_amr_claims (id, session_id, authentication_method, created_at, updated_at)
        SELECT {_METHOD_ID}, s.id, 'password', coalesce(s.created_at, now()), coalesce(s.created_at, now())
        FROM staged_sessions s
    """)  # noqa: S608  (our own expression)
    return sessions, methods

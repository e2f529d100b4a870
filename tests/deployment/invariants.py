"""Checks the tables, the emails and the webhooks of an installation against each other and against the journal."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from tests.deployment.client import Client
from tests.deployment.installation import Installation
from tests.deployment.load import Journal
from tests.timeouts import wait_until

# Columns of these names contain the ID of a row of these tables, with or without a foreign key.
_REFERENCES = {
    "user_id": "users",
    "session_id": "sessions",
    "factor_id": "mfa_factors",
    "client_id": "oauth_clients",
    "oauth_client_id": "oauth_clients",
    "event_id": "webhook_events",
    "endpoint_id": "webhook_endpoints",
    "delivery_id": "webhook_deliveries",
}
_COLUMNS = """
    SELECT table_name, column_name FROM information_schema.columns
      JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND column_name = ANY(%s) AND data_type = 'uuid'
"""
_INDEXES = """
    SELECT bt_index_check(pg_class.oid, true) FROM pg_class JOIN pg_am ON pg_am.oid = relam
      JOIN pg_index ON indexrelid = pg_class.oid
     WHERE relkind = 'i' AND amname = 'btree' AND indisvalid AND relpersistence = 'p'
       AND relnamespace = 'public'::regnamespace
"""
# Each selects rows that contradict the statement.
_STATEMENTS = {
    "no address has two users": """
        SELECT lower(email) FROM users WHERE email IS NOT NULL AND NOT is_sso_user AND deleted_at IS NULL
         GROUP BY 1 HAVING count(*) > 1""",
    "every user with an address has an identity": """
        SELECT id FROM users WHERE email IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM identities WHERE user_id = users.id)""",
    "every identity is unique": """
        SELECT provider, provider_id FROM identities GROUP BY 1, 2 HAVING count(*) > 1""",
    "no confirmed user has a pending confirmation": """
        SELECT users.id FROM users JOIN one_time_tokens ON user_id = users.id
         WHERE email_confirmed_at IS NOT NULL AND token_type = 'confirmation_token'""",
    "every link of a one-time token is unique": """
        SELECT link_hash FROM one_time_tokens GROUP BY 1 HAVING count(link_hash) > 1""",
    "a user has one one-time token of a type": """
        SELECT user_id, token_type FROM one_time_tokens GROUP BY 1, 2 HAVING count(*) > 1""",
    "every session has a method of sign-in": """
        SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM mfa_amr_claims WHERE session_id = sessions.id)""",
    "every session has one active refresh token": """
        SELECT sessions.id FROM sessions LEFT JOIN refresh_tokens ON session_id = sessions.id AND NOT revoked
         GROUP BY sessions.id HAVING count(refresh_tokens.id) + count(DISTINCT refresh_token_counter) <> 1""",
    "every number of an event is unique": """
        SELECT sequence FROM webhook_events GROUP BY 1 HAVING count(*) > 1""",
    "every event has its delivery": """
        SELECT id FROM webhook_events WHERE is_fanned_out AND NOT EXISTS (
               SELECT 1 FROM webhook_deliveries WHERE event_id = webhook_events.id)""",
    "no job has failed": """
        SELECT id FROM procrastinate_jobs WHERE status NOT IN ('todo', 'doing', 'succeeded')""",
    "no webhook has failed": """
        SELECT id FROM webhook_deliveries WHERE status NOT IN ('pending', 'succeeded')""",
}
_UNFINISHED = """
    SELECT (SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))
         + (SELECT count(*) FROM webhook_events WHERE NOT is_fanned_out)
         + (SELECT count(*) FROM webhook_deliveries WHERE status <> 'succeeded')
"""
_AUDITED = """
    SELECT payload ->> 'actor_id', payload ->> 'action', count(*) FROM audit_log_entries GROUP BY 1, 2
"""
Connection = psycopg.Connection[Any]
SAMPLE = 40
"""Sessions whose refresh token is used after the load: the oldest, the newest, and ended ones."""


@dataclass(kw_only=True)
class InvariantReport:
    lost: int = 0
    """Rows that a 2xx response has stated and that do not exist."""
    doubled_mails: int = 0
    """Further copies of an email, with the same Message-ID."""
    problems: list[str] = field(default_factory=list)
    """Violated statements, lost rows included."""


def check(installation: Installation, journal: Journal) -> InvariantReport:
    """Wait until all jobs and webhooks are done, then check everything. The load must have ended."""
    report = InvariantReport()
    try:
        wait_until(lambda: _unfinished(installation) == 0, "the end of all jobs and webhooks")
    except AssertionError:
        report.problems.append(f"{_unfinished(installation)} jobs or webhooks are stuck")
    with installation.pair.primary.connect() as connection:
        _check_tables(connection, report)
        _check_journal(connection, journal, report)
    _check_mails(installation, journal, report)
    _check_webhooks(installation, journal, report)
    asyncio.run(_check_tokens(installation, journal, report))
    return report


def _unfinished(installation: Installation) -> int:
    with installation.pair.primary.connect() as connection:
        [(number,)] = connection.execute(_UNFINISHED).fetchall()
    return int(number)


def _check_tables(connection: Connection, report: InvariantReport) -> None:
    # Each index contains every row of its table, and rows are in order.
    try:
        connection.execute(_INDEXES)
    except psycopg.Error as error:
        report.problems.append(f"damaged index: {error}")
    # The tables decide, not the indexes.
    connection.execute("SET enable_indexscan = off")
    connection.execute("SET enable_indexonlyscan = off")
    connection.execute("SET enable_bitmapscan = off")
    for statement, query in _STATEMENTS.items():
        if exceptions := connection.execute(query).fetchall():
            report.problems.append(f"not true: {statement} ({len(exceptions)} exceptions)")
    for table, column in connection.execute(_COLUMNS, (list(_REFERENCES),)).fetchall():
        orphans = sql.SQL(
            "SELECT 1 FROM {table} AS child WHERE {column} IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM {parent} AS parent WHERE parent.id = child.{column})"
        ).format(table=sql.Identifier(table), column=sql.Identifier(column), parent=sql.Identifier(_REFERENCES[column]))
        if rows := connection.execute(orphans).fetchall():
            report.problems.append(f"{len(rows)} rows of {table} refer by {column} to rows that do not exist")


def _check_journal(connection: Connection, journal: Journal, report: InvariantReport) -> None:
    users = dict(connection.execute("SELECT email, id::text FROM users").fetchall())
    lost = [email for email, user_id in journal.accounts.items() if users.get(email) != user_id]
    _note_lost(report, "accounts", lost)

    counters = dict(connection.execute("SELECT id::text, COALESCE(refresh_token_counter, -1) FROM sessions").fetchall())
    alive = journal.counters.keys() - journal.ended - journal.undecided
    _note_lost(report, "sessions", sorted(alive - counters.keys()))
    older = [name for name in alive & counters.keys() if counters[name] < journal.counters[name]]
    _note_lost(report, "refreshes", older)
    _note_lost(report, "sign-outs", sorted(journal.ended & counters.keys()))

    audited = {(user_id, action): number for user_id, action, number in connection.execute(_AUDITED).fetchall()}
    missing = [key for key, number in journal.audited.items() if audited.get(key, 0) < number]
    _note_lost(report, "audit entries", missing)


def _note_lost(report: InvariantReport, name: str, lost: list[Any]) -> None:
    if lost:
        report.lost += len(lost)
        report.problems.append(f"{len(lost)} {name} are lost, for example {lost[0]}")


def _check_mails(installation: Installation, journal: Journal, report: InvariantReport) -> None:
    by_recipient = installation.smtp.message_ids()
    # The queue is empty, so an email that was not sent is lost.
    _note_lost(report, "emails", [email for email in journal.accounts if email not in by_recipient])
    for email, ids in by_recipient.items():
        report.doubled_mails += len(ids) - len(set(ids))
        if len(set(ids)) > 1:
            report.problems.append(f"{email} received {len(set(ids))} different emails")


def _check_webhooks(installation: Installation, journal: Journal, report: InvariantReport) -> None:
    """Each user's events must arrive in their order; repetitions of an event do not count."""
    seen: set[str] = set()
    last: dict[str, int] = {}
    created: Counter[str] = Counter()
    disordered: set[str] = set()
    for received in list(installation.receiver.received):
        if received.headers["webhook-id"] in seen:
            continue
        seen.add(received.headers["webhook-id"])
        event = json.loads(received.body)
        user_id = event["data"]["user"]["id"] if event["data"].get("user") else ""
        created[user_id] += event["type"] == "user.created"
        if event["sequence"] < last.get(user_id, 0):
            disordered.add(user_id)
        last[user_id] = event["sequence"]
    if disordered:
        report.problems.append(f"events of {len(disordered)} users arrived out of order")
    _note_lost(report, "events", [user_id for user_id in journal.accounts.values() if created[user_id] != 1])


async def _check_tokens(installation: Installation, journal: Journal, report: InvariantReport) -> None:
    """The latest refresh tokens work, those of ended sessions do not."""
    client = Client(installation.port)
    alive = [name for name in journal.tokens if name not in journal.ended | journal.undecided]
    for names, expected_status in ((alive[:SAMPLE] + alive[-SAMPLE:], 200), (sorted(journal.ended)[:SAMPLE], 400)):
        for name in names:
            body = {"refresh_token": journal.tokens[name]}
            response = await client.request("POST", "/token?grant_type=refresh_token", body)
            if response.status != expected_status:
                _note_lost(report, f"states of sessions ({response.status} instead of {expected_status})", [name])
    client.close()

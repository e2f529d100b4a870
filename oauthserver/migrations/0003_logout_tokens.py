"""Adds triggers that queue a logout token for each session of a client that ends.

A trigger finds every end of a session, by whatever statement. Its condition is checked without a call, so that the end
of a session of no client costs nothing.
"""

from django.db import migrations

from authsvc.db.sql import namespaced
from authsvc.jobs import registry

SESSIONS, CLIENTS, USERS = namespaced("sessions"), namespaced("oauth_clients"), namespaced("users")
ENDED, LOGGED_OUT = namespaced("oauth_session_ended"), namespaced("oauth_session_logged_out")
BANNED = namespaced("oauth_user_banned")


def queue_tokens(function: str, sessions: str, condition: str) -> str:
    """A trigger function that queues a logout token for each session `s` in `sessions`."""
    return f"""
        CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args)
            SELECT '{registry.queue()}', 'oauthserver.send_logout_token', {registry.NOTICE_PRIORITY},
                jsonb_build_object('client_id', s.oauth_client_id, 'user_id', s.user_id, 'session_id', s.id)
            FROM {sessions} s JOIN {CLIENTS} c ON c.id = s.oauth_client_id
            WHERE {condition} AND c.backchannel_logout_uri IS NOT NULL AND c.deleted_at IS NULL;
            RETURN NULL;
        END $$
    """  # noqa: S608  (own names)


FUNCTIONS = {
    ENDED: queue_tokens(ENDED, "(SELECT OLD.*)", "true"),
    # A session with offline access outlives the session in the browser.
    LOGGED_OUT: queue_tokens(LOGGED_OUT, "(SELECT NEW.*)", "true"),
    BANNED: queue_tokens(BANNED, SESSIONS, "s.user_id = NEW.id"),
}
TRIGGERS = {
    # Requests lock rows of users before those of sessions.
    BANNED: (
        USERS,
        "AFTER UPDATE OF banned_until",
        "NEW.banned_until > now() AND (OLD.banned_until IS NULL OR OLD.banned_until <= now())",
    ),
    ENDED: (SESSIONS, "AFTER DELETE", "OLD.oauth_client_id IS NOT NULL"),
    LOGGED_OUT: (
        SESSIONS,
        "AFTER UPDATE OF approving_session_id",
        "OLD.approving_session_id IS NOT NULL AND NEW.approving_session_id IS NULL",
    ),
}


class Migration(migrations.Migration):
    dependencies = [
        ("oauthserver", "0002_metadata_and_devices"),
        ("tokens", "0006_client_sessions_of_browsers"),
        ("procrastinate", "0001_initial"),
    ]

    operations = [
        *(migrations.RunSQL([sql], [f"DROP FUNCTION IF EXISTS {name}() CASCADE"]) for name, sql in FUNCTIONS.items()),
        *(
            # The lock lets readers continue, in contrast to that of DROP TRIGGER.
            migrations.RunSQL(
                [
                    f"CREATE TRIGGER {name} {event} ON {table} FOR EACH ROW WHEN ({condition})"  # noqa: ISC004  (one statement)
                    f" EXECUTE FUNCTION {name}()",
                ],
                migrations.RunSQL.noop,
            )
            for name, (table, event, condition) in TRIGGERS.items()
        ),
    ]

"""Replaces the index of audit entries by user with one that also has the kind of the action."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_user_kind_idx")
REPLACED = namespaced("audit_log_entries_user_idx")
TABLE = namespaced("audit_log_entries")
OWNER = "(COALESCE(payload -> 'traits' ->> 'user_id', payload ->> 'actor_id'))"
KIND = (
    "(CASE"
    " WHEN payload ->> 'action' IN ('login', 'logout', 'user_signedup', 'invite_accepted', 'challenge_created',"
    " 'verification_attempted', 'recovery_code_used') THEN 'sign_in'"
    " WHEN payload ->> 'action' IN ('sign_in_refused', 'user_change_refused') THEN 'refusal'"
    " WHEN payload ->> 'action' IN ('user_recovery_requested', 'user_reauthenticate_requested',"
    " 'user_confirmation_requested', 'user_repeated_signup', 'message_retried') THEN 'message'"
    " WHEN payload ->> 'action' IN ('operator_note_added') THEN 'note'"
    " WHEN payload ->> 'action' IN ('token_refreshed', 'personal_data_viewed') THEN 'access'"
    " ELSE 'change' END)"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0005_audit_of_sign_ins")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL(
            [f"CREATE INDEX CONCURRENTLY {NAME} ON {TABLE} ({OWNER}, {KIND}, created_at DESC, id DESC)"],
            [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"],
        ),
        migrations.RunSQL(
            [f"DROP INDEX CONCURRENTLY IF EXISTS {REPLACED}"],
            [f"CREATE INDEX CONCURRENTLY {REPLACED} ON {TABLE} ({OWNER}, created_at DESC, id DESC)"],
        ),
    ]

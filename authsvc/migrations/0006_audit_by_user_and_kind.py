"""Replaces the index of audit entries by user with one that also has the kind of the action."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_user_kind_idx")
REPLACED = namespaced("audit_log_entries_user_idx")
TABLE = namespaced("audit_log_entries")
OWNER = "(COALESCE(payload -> 'traits' ->> 'user_id', payload ->> 'actor_id'))"
KIND = (
    "(CASE payload ->> 'action' WHEN 'token_refreshed' THEN 'access' WHEN 'personal_data_viewed' THEN 'access'"
    " WHEN 'login' THEN 'sign_in' WHEN 'logout' THEN 'sign_in' WHEN 'user_signedup' THEN 'sign_in'"
    " WHEN 'invite_accepted' THEN 'sign_in' WHEN 'challenge_created' THEN 'sign_in'"
    " WHEN 'verification_attempted' THEN 'sign_in' WHEN 'recovery_code_used' THEN 'sign_in'"
    " WHEN 'sign_in_refused' THEN 'refusal' WHEN 'user_change_refused' THEN 'refusal'"
    " WHEN 'user_recovery_requested' THEN 'message' WHEN 'user_reauthenticate_requested' THEN 'message'"
    " WHEN 'user_confirmation_requested' THEN 'message' WHEN 'user_repeated_signup' THEN 'message'"
    " WHEN 'message_retried' THEN 'message' WHEN 'operator_note_added' THEN 'note' ELSE 'change' END)"
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

"""Adds an index of the audit entries of sign-ins by user."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_sign_in_idx")
CREATE = (
    f"CREATE INDEX CONCURRENTLY {NAME} ON {namespaced('audit_log_entries')}"
    " ((payload ->> 'actor_id'), created_at DESC)"
    " WHERE payload ->> 'action' IN ('login', 'user_signedup', 'verification_attempted', 'recovery_code_used')"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0004_audit_by_other_actor")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL([CREATE], [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"]),
    ]

"""Adds an index of audit entries by user."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_user_idx")
CREATE = (
    f"CREATE INDEX CONCURRENTLY {NAME} ON {namespaced('audit_log_entries')}"
    " ((COALESCE(payload -> 'traits' ->> 'user_id', payload ->> 'actor_id')), created_at DESC, id DESC)"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0001_tables")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL([CREATE], [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"]),
    ]

"""Adds an index of the audit entries of sessions in which an operator impersonates a user, by operator."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_impersonator_idx")
CREATE = (
    f"CREATE INDEX CONCURRENTLY {NAME} ON {namespaced('audit_log_entries')} ((payload ->> 'impersonator_id'))"
    " WHERE payload ->> 'impersonator_id' IS NOT NULL"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0007_daily_counts")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL([CREATE], [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"]),
    ]

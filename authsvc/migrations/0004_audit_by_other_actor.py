"""Adds an index of audit entries that belong to one user and name another one as actor."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("audit_log_entries_other_actor_idx")
# Administrators act without an id of their own; what is left has come from a reference database.
CREATE = (
    f"CREATE INDEX CONCURRENTLY {NAME} ON {namespaced('audit_log_entries')} ((payload ->> 'actor_id'))"
    " WHERE payload -> 'traits' ->> 'user_id' <> payload ->> 'actor_id'"
    " AND payload ->> 'actor_id' <> '00000000-0000-0000-0000-000000000000'"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("core", "0003_names_of_the_audit_trail")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL([CREATE], [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"]),
    ]

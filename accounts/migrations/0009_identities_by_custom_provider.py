"""Adds an index of the users with an identity of a custom provider. It contains no other identities."""

from django.db import migrations

from authsvc.db.sql import namespaced

NAME = namespaced("identities_custom_provider_idx")
CREATE = (
    f"CREATE INDEX CONCURRENTLY {NAME} ON {namespaced('identities')} (provider, user_id) WHERE provider LIKE 'custom:%'"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0008_operator_notes")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        migrations.RunSQL([CREATE], [f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"]),
    ]

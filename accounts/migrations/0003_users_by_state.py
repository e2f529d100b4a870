"""Adds indexes of users by state for the console. No sign-in changes an indexed column."""

from django.db import migrations

from authsvc.db.sql import namespaced

USERS = namespaced("users")
INDEXES = {
    namespaced("users_banned_idx"): "(created_at DESC, id DESC) WHERE banned_until IS NOT NULL",
    namespaced("users_deleted_idx"): "(created_at DESC, id DESC) WHERE deleted_at IS NOT NULL",
    namespaced("users_role_idx"): "(role)",
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0002_users_by_audience")]

    operations = [
        # An interrupted run leaves an invalid index.
        *(migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {name}"], []) for name in INDEXES),
        *(
            migrations.RunSQL(
                [f"CREATE INDEX CONCURRENTLY {name} ON {USERS} {what}"], [f"DROP INDEX CONCURRENTLY IF EXISTS {name}"]
            )
            for name, what in INDEXES.items()
        ),
    ]

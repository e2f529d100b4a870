"""Leaves sessions without an end and without an OAuth client out of the indexes of these columns."""

from django.db import migrations, models

from authsvc.db.sql import namespaced

TABLE = namespaced("sessions")
INDEXES = {"not_after": "DESC", "oauth_client_id": "ASC"}


def replace_index(column: str, order: str) -> list[migrations.RunSQL]:
    name, replacement = namespaced(f"sessions_{column}_idx"), namespaced(f"sessions_{column}_partial_idx")
    create = f"CREATE INDEX CONCURRENTLY {replacement} ON {TABLE} ({column} {order})"
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS {name}"
    # An interrupted run leaves an invalid index.
    drop_replacement = f"DROP INDEX CONCURRENTLY IF EXISTS {replacement}"
    rename = f"ALTER INDEX {replacement} RENAME TO {name}"
    return [
        migrations.RunSQL([forward], [backward])
        for forward, backward in (
            (drop_replacement, rename),
            (f"{create} WHERE {column} IS NOT NULL", drop),
            (drop, create),
            (rename, drop_replacement),
        )
    ]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tokens", "0006_client_sessions_of_browsers")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[sql for column, order in INDEXES.items() for sql in replace_index(column, order)],
            state_operations=[
                migrations.RemoveIndex("session", namespaced("sessions_not_after_idx")),
                migrations.RemoveIndex("session", namespaced("sessions_oauth_client_id_idx")),
                migrations.AddIndex(
                    "session",
                    models.Index(
                        fields=["-not_after"],
                        condition=models.Q(("not_after__isnull", False)),
                        name=namespaced("sessions_not_after_idx"),
                    ),
                ),
                migrations.AddIndex(
                    "session",
                    models.Index(
                        fields=["oauth_client_id"],
                        condition=models.Q(("oauth_client_id__isnull", False)),
                        name=namespaced("sessions_oauth_client_id_idx"),
                    ),
                ),
            ],
        ),
    ]

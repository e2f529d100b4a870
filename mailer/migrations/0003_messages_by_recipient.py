"""Indexes that find the messages for one person in the queue, whose table is its library's and everybody's."""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from authsvc.core.db import namespaced
from authsvc.core.jobs import registry

OURS = f"WHERE queue_name = '{registry.queue()}'"
INDEXES = {
    namespaced("messages_to_user_idx"): f"((args ->> 'to_user')) {OURS} AND args ->> 'to_user' IS NOT NULL",
    namespaced("messages_to_address_idx"): f"((args ->> 'to_address')) {OURS} AND args ->> 'to_address' IS NOT NULL",
    # Those stored before there were marks; the ones that have failed stay until somebody removes them.
    namespaced("messages_unmarked_idx"): f"(id) {OURS} AND task_name = 'mailer.deliver' AND NOT args ? 'to_address'",
}
IS_OWNER = """
    SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('procrastinate_jobs')
"""


def create(_: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    with editor.connection.cursor() as cursor:
        cursor.execute(IS_OWNER)
        if cursor.fetchone() != (True,):
            # Another installation's role has made the table. Without indexes the queue is read through, unopened.
            return
        for name, what in INDEXES.items():
            # What an interrupted run has left behind is no index.
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            cursor.execute(f"CREATE INDEX CONCURRENTLY {name} ON procrastinate_jobs {what}")


def drop(_: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    with editor.connection.cursor() as cursor:
        for name in INDEXES:
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mailer", "0002_messages_in_the_console"), ("procrastinate", "0001_initial")]

    operations = [migrations.RunPython(create, drop)]

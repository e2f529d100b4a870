"""Creates indexes that find the messages to one recipient in the queue table of procrastinate.

Several installations share the table. If another role owns it, the indexes are skipped and searches scan the table.
"""

from django.db import migrations

from authsvc.db.sql import namespaced
from authsvc.jobs import registry
from authsvc.jobs.shared_tables import RunSQLByOwner

OURS = f"WHERE queue_name = '{registry.queue()}'"
INDEXES = {
    namespaced("messages_to_user_idx"): f"((args ->> 'to_user')) {OURS} AND args ->> 'to_user' IS NOT NULL",
    namespaced("messages_to_address_idx"): f"((args ->> 'to_address')) {OURS} AND args ->> 'to_address' IS NOT NULL",
    # Messages from before the digests were stored; failed ones stay until an operator removes them.
    namespaced("messages_unmarked_idx"): f"(id) {OURS} AND task_name = 'mailer.deliver' AND NOT args ? 'to_address'",
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mailer", "0002_messages_in_the_console"), ("procrastinate", "0001_initial")]

    operations = [
        # An interrupted run leaves an invalid index.
        *(RunSQLByOwner([f"DROP INDEX CONCURRENTLY IF EXISTS {name}"], []) for name in INDEXES),
        *(
            RunSQLByOwner(
                [f"CREATE INDEX CONCURRENTLY {name} ON procrastinate_jobs {definition}"],
                [f"DROP INDEX CONCURRENTLY IF EXISTS {name}"],
            )
            for name, definition in INDEXES.items()
        ),
    ]

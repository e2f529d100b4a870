"""Indexes that find the messages for one person in the queue, whose table is its library's and everybody's.

Without them, where another installation's role owns the table, the queue is read through.
"""

from django.db import migrations

from authsvc.db.sql import namespaced
from authsvc.jobs import registry
from authsvc.jobs.shared_tables import RunSQLByOwner

OURS = f"WHERE queue_name = '{registry.queue()}'"
INDEXES = {
    namespaced("messages_to_user_idx"): f"((args ->> 'to_user')) {OURS} AND args ->> 'to_user' IS NOT NULL",
    namespaced("messages_to_address_idx"): f"((args ->> 'to_address')) {OURS} AND args ->> 'to_address' IS NOT NULL",
    # Those stored before there were marks; the ones that have failed stay until somebody removes them.
    namespaced("messages_unmarked_idx"): f"(id) {OURS} AND task_name = 'mailer.deliver' AND NOT args ? 'to_address'",
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mailer", "0002_messages_in_the_console"), ("procrastinate", "0001_initial")]

    operations = [
        # What an interrupted run has left behind is no index.
        *(RunSQLByOwner([f"DROP INDEX CONCURRENTLY IF EXISTS {name}"], []) for name in INDEXES),
        *(
            RunSQLByOwner(
                [f"CREATE INDEX CONCURRENTLY {name} ON procrastinate_jobs {what}"],
                [f"DROP INDEX CONCURRENTLY IF EXISTS {name}"],
            )
            for name, what in INDEXES.items()
        ),
    ]

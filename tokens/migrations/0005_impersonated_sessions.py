"""Adds an index of the sessions in which an operator impersonates a user."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("sessions_impersonator_id_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tokens", "0004_impersonation")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                fields=["impersonator_id"], condition=models.Q(("impersonator_id__isnull", False)), name=NAME
            ),
        ),
    ]

"""Adds an index of flows that link an identity, which the revocation of sessions deletes."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("flow_state_linking_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tokens", "0001_tables")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="flowstate",
            index=models.Index(
                fields=["linking_target_id"], condition=models.Q(("linking_target_id__isnull", False)), name=NAME
            ),
        ),
    ]

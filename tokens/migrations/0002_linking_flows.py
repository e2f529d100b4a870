"""An index of the flows that are to link an identity, which the end of a user's sessions looks for."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("flow_state_linking_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tokens", "0001_tables")]

    operations = [
        # What an interrupted run has left behind is no index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="flowstate",
            index=models.Index(
                fields=["linking_target_id"], condition=models.Q(("linking_target_id__isnull", False)), name=NAME
            ),
        ),
    ]

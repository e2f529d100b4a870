"""Adds the index of the user list: users of an audience by age."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("users_aud_created_at_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0001_tables")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(model_name="user", index=models.Index(fields=["aud", "-created_at", "-id"], name=NAME)),
    ]

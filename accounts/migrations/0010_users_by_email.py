"""Adds the index by which the console sorts users by email address: about 75 MB for 1,000,000 users."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("users_email_id_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0009_identities_by_custom_provider")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(model_name="user", index=models.Index(fields=["email", "id"], name=NAME)),
    ]

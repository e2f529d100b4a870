"""Adds an index of unverified factors, which each enrolment deletes."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("mfa_factors_unverified_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("accounts", "0004_factors_and_passkeys")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="factor",
            index=models.Index(fields=["created_at"], condition=models.Q(("status", "unverified")), name=NAME),
        ),
    ]

"""Adds an index of the pushed authorization requests that are not used yet."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

NAME = namespaced("oauth_authorizations_request_uri_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("oauthserver", "0002_client_keys")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="oauthauthorization",
            index=models.Index(fields=["request_uri"], condition=models.Q(("request_uri__isnull", False)), name=NAME),
        ),
    ]

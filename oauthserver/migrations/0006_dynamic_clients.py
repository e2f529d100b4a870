"""Adds an index of the clients that registered themselves, for their cleanup."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

CLIENTS = namespaced("oauth_clients_dynamic_created_at_idx")
CONSENTS = namespaced("oauth_consents_client_id_idx")


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("oauthserver", "0005_logout")]

    operations = [
        # An interrupted run leaves an invalid index.
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {CLIENTS}"], migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="oauthclient",
            index=models.Index(
                fields=["created_at"], condition=models.Q(("registration_type", "dynamic")), name=CLIENTS
            ),
        ),
        migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {CONSENTS}"], migrations.RunSQL.noop),
        AddIndexConcurrently(model_name="oauthconsent", index=models.Index(fields=["client"], name=CONSENTS)),
    ]

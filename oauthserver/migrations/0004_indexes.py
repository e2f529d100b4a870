"""Adds indexes of pushed requests, and of clients and consents for the cleanup of unused clients."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

INDEXES = {
    "oauthauthorization": models.Index(
        fields=["request_uri"],
        condition=models.Q(("request_uri__isnull", False)),
        name=namespaced("oauth_authorizations_request_uri_idx"),
    ),
    "oauthclient": models.Index(
        fields=["created_at"],
        condition=models.Q(("registration_type", "dynamic")),
        name=namespaced("oauth_clients_dynamic_created_at_idx"),
    ),
    "oauthconsent": models.Index(fields=["client"], name=namespaced("oauth_consents_client_id_idx")),
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("oauthserver", "0003_logout_tokens")]

    operations = [
        operation
        for model, index in INDEXES.items()
        for operation in (
            # An interrupted run leaves an invalid index.
            migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"], migrations.RunSQL.noop),
            AddIndexConcurrently(model_name=model, index=index),
        )
    ]

"""Adds the keys, scopes and requirements of clients, used assertions, and pushed authorization requests."""

from django.db import migrations, models
from django.db.models import Q

from authsvc.db.sql import namespaced

TABLE = namespaced("oauth_clients")
CHECK = namespaced("oauth_clients_token_endpoint_auth_method_check")
METHODS = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
LIST = ", ".join(f"'{method}'" for method in METHODS)


class Migration(migrations.Migration):
    dependencies = [("oauthserver", "0001_tables")]

    operations = [
        migrations.AddField(
            model_name="oauthclient",
            name="token_endpoint_auth_signing_alg",
            field=models.TextField(null=True, verbose_name="algorithm of assertions"),
        ),
        migrations.AddField(
            model_name="oauthclient", name="jwks", field=models.TextField(null=True, verbose_name="keys")
        ),
        migrations.AddField(
            model_name="oauthclient", name="jwks_uri", field=models.TextField(null=True, verbose_name="URL of the keys")
        ),
        migrations.AddField(
            model_name="oauthclient", name="scope", field=models.TextField(null=True, verbose_name="scopes of its own")
        ),
        migrations.AddField(
            model_name="oauthclient", name="resource", field=models.TextField(null=True, verbose_name="resource")
        ),
        migrations.AddField(
            model_name="oauthclient",
            name="require_pushed_authorization_requests",
            field=models.BooleanField(db_default=False, verbose_name="requires pushed requests"),
        ),
        migrations.AddField(model_name="oauthauthorization", name="request_uri", field=models.TextField(null=True)),
        migrations.CreateModel(
            name="ClientAssertion",
            fields=[
                ("digest", models.TextField(primary_key=True, serialize=False)),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "db_table": namespaced("oauth_client_assertions"),
                "indexes": [
                    models.Index(fields=["expires_at"], name=namespaced("oauth_client_assertions_expires_at_idx"))
                ],
            },
        ),
        # The table has one row per application, so that the check of its rows takes milliseconds.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    [
                        f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {CHECK}",
                        f"ALTER TABLE {TABLE} ADD CONSTRAINT {CHECK} CHECK (token_endpoint_auth_method IN ({LIST}))",
                    ],
                    migrations.RunSQL.noop,
                )
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="oauthclient",
                    name="token_endpoint_auth_method",
                    field=models.TextField(
                        choices=[(method, method) for method in METHODS], verbose_name="client authentication"
                    ),
                ),
                migrations.RemoveConstraint(model_name="oauthclient", name=CHECK),
                migrations.AddConstraint(
                    model_name="oauthclient",
                    constraint=models.CheckConstraint(
                        condition=Q(("token_endpoint_auth_method__in", METHODS)), name=CHECK
                    ),
                ),
            ],
        ),
    ]

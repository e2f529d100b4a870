"""Adds the metadata of clients for private_key_jwt, logout and grants of their own, and the requests of devices."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

from authsvc.db.sql import namespaced

CLIENTS = namespaced("oauth_clients")
METHOD_CHECK = namespaced("oauth_clients_token_endpoint_auth_method_check")
METHODS = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
METHOD_IS_KNOWN = "token_endpoint_auth_method IN ({})".format(", ".join(f"'{method}'" for method in METHODS))
DEVICES = "oauth_device_authorizations"
STATUSES = ["pending", "approved", "denied", "expired", "exchanged"]


def cascade(column: str, parent: str) -> migrations.RunSQL:
    """A foreign key with ON DELETE CASCADE in the database, which Django's foreign keys lack."""
    sql = (
        f"ALTER TABLE {namespaced(DEVICES)} ADD CONSTRAINT {namespaced(f'{DEVICES}_{column}_fkey')}"
        f" FOREIGN KEY ({column}) REFERENCES {namespaced(parent)} (id) ON DELETE CASCADE"
    )
    return migrations.RunSQL([sql], migrations.RunSQL.noop)


class Migration(migrations.Migration):
    dependencies = [
        ("oauthserver", "0001_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(model_name="oauthauthorization", name="request_uri", field=models.TextField(null=True)),
        migrations.AddField(model_name="oauthauthorization", name="hinted_user_id", field=models.UUIDField(null=True)),
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
        migrations.AddField(
            model_name="oauthclient",
            name="post_logout_redirect_uris",
            field=models.TextField(null=True, verbose_name="redirect URIs after logout"),
        ),
        migrations.AddField(
            model_name="oauthclient",
            name="backchannel_logout_uri",
            field=models.TextField(null=True, verbose_name="back-channel logout"),
        ),
        migrations.AddField(
            model_name="oauthclient",
            name="backchannel_logout_session_required",
            field=models.BooleanField(db_default=False, verbose_name="requires sid in logout tokens"),
        ),
        # The table has one row per application, so that the check of its rows takes milliseconds.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    [
                        f"ALTER TABLE {CLIENTS} DROP CONSTRAINT IF EXISTS {METHOD_CHECK}",
                        f"ALTER TABLE {CLIENTS} ADD CONSTRAINT {METHOD_CHECK} CHECK ({METHOD_IS_KNOWN})",
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
                migrations.RemoveConstraint(model_name="oauthclient", name=METHOD_CHECK),
                migrations.AddConstraint(
                    model_name="oauthclient",
                    constraint=models.CheckConstraint(
                        condition=Q(("token_endpoint_auth_method__in", METHODS)), name=METHOD_CHECK
                    ),
                ),
            ],
        ),
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
        migrations.CreateModel(
            name="DeviceAuthorization",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("device_code_hash", models.TextField()),
                ("user_code_hash", models.TextField()),
                ("scope", models.TextField()),
                ("resource", models.TextField(null=True)),
                ("max_age", models.BigIntegerField(null=True)),
                ("acr_values", models.TextField(null=True)),
                (
                    "status",
                    models.TextField(
                        choices=[(status, status.capitalize()) for status in STATUSES], db_default="pending"
                    ),
                ),
                ("poll_interval", models.IntegerField()),
                ("polled_at", models.DateTimeField(null=True)),
                ("authenticated_at", models.DateTimeField(null=True)),
                ("aal", models.TextField(null=True)),
                ("session_id", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("approved_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "client",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="device_authorizations",
                        to="oauthserver.oauthclient",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="oauth_device_authorizations",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": namespaced(DEVICES),
                "indexes": [
                    models.Index(fields=["expires_at"], name=namespaced("oauth_device_auth_expires_at_idx")),
                    models.Index(fields=["user", "client"], name=namespaced("oauth_device_auth_user_id_idx")),
                    models.Index(fields=["client"], name=namespaced("oauth_device_auth_client_id_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("device_code_hash",), name=namespaced("oauth_device_auth_device_code_key")
                    ),
                    models.UniqueConstraint(
                        fields=("user_code_hash",), name=namespaced("oauth_device_auth_user_code_key")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", STATUSES)), name=namespaced("oauth_device_auth_status_check")
                    ),
                    *(
                        models.CheckConstraint(
                            condition=models.Q(
                                (f"{column}__isnull", True), (f"{column}__length__lte", limit), _connector="OR"
                            ),
                            name=namespaced(f"{DEVICES}_{column}_length"),
                        )
                        for column, limit in (("scope", 4096), ("resource", 2048))
                    ),
                ],
            },
        ),
        cascade("client_id", "oauth_clients"),
        cascade("user_id", "users"),
    ]

"""Requests of devices without a browser (RFC 8628)."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from authsvc.db.sql import namespaced

TABLE = "oauth_device_authorizations"
STATUSES = ["pending", "approved", "denied", "expired", "exchanged"]


def cascade(column: str, parent: str) -> migrations.RunSQL:
    """A foreign key with ON DELETE CASCADE in the database, which Django's foreign keys lack."""
    sql = (
        f"ALTER TABLE {namespaced(TABLE)} ADD CONSTRAINT {namespaced(f'{TABLE}_{column}_fkey')}"
        f" FOREIGN KEY ({column}) REFERENCES {namespaced(parent)} (id) ON DELETE CASCADE"
    )
    return migrations.RunSQL([sql], migrations.RunSQL.noop)


class Migration(migrations.Migration):
    dependencies = [
        ("oauthserver", "0003_pushed_requests"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
                "db_table": namespaced(TABLE),
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
                            name=namespaced(f"{TABLE}_{column}_length"),
                        )
                        for column, limit in (("scope", 4096), ("resource", 2048))
                    ),
                ],
            },
        ),
        cascade("client_id", "oauth_clients"),
        cascade("user_id", "users"),
    ]

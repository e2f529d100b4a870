"""The audit trail and the rate-limit counters."""

import uuid

import django.db.models.functions.datetime
from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="RateLimit",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "bucket", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("bucket", models.TextField()),
                ("key", models.TextField()),
                ("tokens", models.FloatField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": namespaced("rate_limits"),
            },
        ),
        migrations.CreateModel(
            name="AuditLogEntry",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("payload", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(null=True)),
                ("ip_address", models.CharField(db_default="", max_length=64)),
            ],
            options={
                "db_table": namespaced("audit_log_entries"),
                "indexes": [
                    models.Index(fields=["-created_at", "-id"], name=namespaced("audit_log_entries_created_at_idx"))
                ],
            },
        ),
        # Counters may be lost in a crash, so they are not worth a log of their changes.
        migrations.RunSQL([f"ALTER TABLE {namespaced('rate_limits')} SET UNLOGGED"], migrations.RunSQL.noop),
    ]

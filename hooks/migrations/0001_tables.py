"""Endpoints, events, deliveries and attempts of webhooks."""

import uuid
from typing import Any

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

from authsvc.db.sql import namespaced


def cascade(child: str, column: str, parent: str) -> migrations.RunSQL:
    """A foreign key with ON DELETE CASCADE in the database, which Django's foreign keys lack."""
    sql = (
        f"ALTER TABLE {namespaced(child)} ADD CONSTRAINT {namespaced(f'{child}_{column}_fkey')}"
        f" FOREIGN KEY ({column}) REFERENCES {namespaced(parent)} (id) ON DELETE CASCADE"
    )
    return migrations.RunSQL([sql], migrations.RunSQL.noop)


def reference(model: str, name: str, *, db_index: bool = False) -> Any:
    return models.ForeignKey(
        db_constraint=False,
        db_index=db_index,
        on_delete=django.db.models.deletion.CASCADE,
        related_name=name,
        to=f"hooks.{model}",
    )


def created_now() -> Any:
    return models.DateTimeField(db_default=django.db.models.functions.datetime.Now())


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("url", models.TextField(verbose_name="URL")),
                ("description", models.TextField(db_default="")),
                (
                    "event_types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None, verbose_name="event types"
                    ),
                ),
                ("secret", models.TextField()),
                ("previous_secret", models.TextField(null=True)),
                ("previous_secret_until", models.DateTimeField(null=True)),
                ("disabled_at", models.DateTimeField(null=True)),
                (
                    "disabled_reason",
                    models.TextField(
                        choices=[
                            ("manual", "disabled by an administrator"),
                            ("gone", "answered 410"),
                            ("failing", "failed for too long"),
                        ],
                        null=True,
                        verbose_name="reason",
                    ),
                ),
                ("failing_since", models.DateTimeField(null=True)),
                ("created_at", created_now()),
                ("updated_at", created_now()),
                ("deleted_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "webhook endpoint",
                "verbose_name_plural": "webhooks",
                "db_table": namespaced("webhook_endpoints"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("disabled_reason__isnull", True),
                            ("disabled_reason__in", ["manual", "gone", "failing"]),
                            _connector="OR",
                        ),
                        name=namespaced("webhook_endpoints_disabled_reason_check"),
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookEvent",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("sequence", models.BigIntegerField()),
                ("type", models.TextField()),
                ("user_id", models.UUIDField(null=True)),
                ("body", models.BinaryField()),
                ("is_fanned_out", models.BooleanField(db_default=False)),
                ("must_scrub", models.BooleanField(db_default=False)),
                ("created_at", created_now()),
            ],
            options={
                "verbose_name": "webhook event",
                "db_table": namespaced("webhook_events"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_fanned_out", False)),
                        fields=["sequence"],
                        name=namespaced("webhook_events_new_idx"),
                    ),
                    models.Index(
                        condition=models.Q(("user_id__isnull", False)),
                        fields=["user_id"],
                        name=namespaced("webhook_events_user_id_idx"),
                    ),
                    models.Index(
                        condition=models.Q(("must_scrub", True)),
                        fields=["sequence"],
                        name=namespaced("webhook_events_must_scrub_idx"),
                    ),
                    models.Index(fields=["created_at"], name=namespaced("webhook_events_created_at_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("sequence",), name=namespaced("webhook_events_sequence_key"))
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("event", reference("webhookevent", "deliveries")),
                ("endpoint", reference("webhookendpoint", "deliveries")),
                ("type", models.TextField()),
                ("user_id", models.UUIDField(null=True)),
                ("sequence", models.BigIntegerField()),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending", "Pending"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_default="pending",
                    ),
                ),
                ("attempts", models.IntegerField(db_default=0)),
                ("earlier_attempts", models.IntegerField(db_default=0)),
                ("next_attempt_at", models.DateTimeField(null=True)),
                ("leased_until", models.DateTimeField(null=True)),
                ("last_status", models.IntegerField(null=True)),
                ("last_error", models.TextField(null=True)),
                ("last_attempt_at", models.DateTimeField(null=True)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("created_at", created_now()),
            ],
            options={
                "verbose_name": "webhook delivery",
                "verbose_name_plural": "webhook deliveries",
                "db_table": namespaced("webhook_deliveries"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "pending")),
                        fields=["endpoint", "next_attempt_at"],
                        name=namespaced("webhook_deliveries_due_idx"),
                    ),
                    models.Index(
                        condition=models.Q(("status", "pending"), ("user_id__isnull", False)),
                        fields=["endpoint", "user_id", "sequence"],
                        name=namespaced("webhook_deliveries_order_idx"),
                    ),
                    models.Index(
                        models.F("status"),
                        models.OrderBy(models.F("created_at"), descending=True),
                        condition=models.Q(("status__in", ["failed", "cancelled"])),
                        name=namespaced("webhook_deliveries_status_idx"),
                    ),
                    models.Index(
                        fields=["endpoint", "-created_at", "-id"], name=namespaced("webhook_deliveries_endpoint_idx")
                    ),
                    models.Index(fields=["-created_at", "-id"], name=namespaced("webhook_deliveries_created_at_idx")),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("event", "endpoint"), name=namespaced("webhook_deliveries_event_key")
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["pending", "succeeded", "failed", "cancelled"])),
                        name=namespaced("webhook_deliveries_status_check"),
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookAttempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("delivery", reference("webhookdelivery", "attempts_log", db_index=True)),
                ("attempt", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("duration_ms", models.IntegerField()),
                ("status", models.IntegerField(null=True)),
                ("error", models.TextField(null=True)),
                ("response_head", models.TextField(null=True)),
            ],
            options={"verbose_name": "webhook attempt", "db_table": namespaced("webhook_attempts")},
        ),
        # An identity, so that the table owns the sequence.
        migrations.RunSQL(
            f"ALTER TABLE {namespaced('webhook_events')} ALTER COLUMN sequence"
            f" ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME {namespaced('webhook_events_sequence_seq')})",
            migrations.RunSQL.noop,
        ),
        cascade("webhook_deliveries", "event_id", "webhook_events"),
        cascade("webhook_deliveries", "endpoint_id", "webhook_endpoints"),
        cascade("webhook_attempts", "delivery_id", "webhook_deliveries"),
    ]

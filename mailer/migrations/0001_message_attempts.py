from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Now

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar[list[tuple[str, str]]] = []

    operations: ClassVar[list[migrations.operations.base.Operation]] = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("message_id", models.UUIDField()),
                ("channel", models.TextField()),
                ("kind", models.TextField()),
                ("user_id", models.UUIDField(null=True)),
                ("attempt", models.IntegerField()),
                ("created_at", models.DateTimeField(db_default=Now())),
                (
                    "outcome",
                    models.TextField(choices=[("delivered", "Delivered"), ("retry", "Retry"), ("failed", "Failed")]),
                ),
                ("gateway_id", models.TextField(db_default="", default="")),
                ("error", models.TextField(db_default="", default="")),
            ],
            options={
                "db_table": namespaced("message_attempts"),
                "indexes": [
                    models.Index(fields=["message_id"], name=namespaced("message_attempts_message_id_idx")),
                    models.Index(
                        condition=models.Q(outcome="failed"),
                        fields=["-created_at"],
                        name=namespaced("message_attempts_failed_idx"),
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(outcome__in=["delivered", "retry", "failed"]),
                        name=namespaced("message_attempts_outcome_check"),
                    )
                ],
            },
        ),
    ]

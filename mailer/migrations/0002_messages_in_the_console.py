"""Adds the messages of the console, and indexes of delivery attempts by user and by age."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from authsvc.db.sql import namespaced

INDEXES = [
    models.Index(fields=["user_id", "-created_at"], name=namespaced("message_attempts_user_id_idx")),
    models.Index(fields=["-created_at", "-id"], name=namespaced("message_attempts_created_at_idx")),
]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mailer", "0001_message_attempts")]

    operations = [
        migrations.AlterModelOptions(name="attempt", options={"verbose_name": "delivery attempt"}),
        # The table is the queue's own.
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue_name", models.TextField()),
                ("task_name", models.TextField()),
                ("status", models.TextField(choices=[("todo", "waiting"), ("doing", "in hand"), ("failed", "failed")])),
                ("scheduled_at", models.DateTimeField(null=True)),
                ("attempts", models.IntegerField()),
                ("args", models.JSONField()),
            ],
            options={
                "verbose_name": "undelivered message",
                "db_table": "procrastinate_jobs",
                "abstract": False,
                "managed": False,
            },
        ),
        # An interrupted run leaves an invalid index.
        *(migrations.RunSQL([f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}"], []) for index in INDEXES),
        *(AddIndexConcurrently(model_name="attempt", index=index) for index in INDEXES),
    ]

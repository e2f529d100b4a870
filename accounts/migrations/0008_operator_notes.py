"""Adds the notes of operators about users."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("accounts", "0007_password_hash_kinds")]

    operations = [
        migrations.CreateModel(
            name="OperatorNote",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("author_id", models.UUIDField(null=True)),
                ("author", models.TextField()),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="operator_notes",
                        to="accounts.user",
                    ),
                ),
            ],
            options={
                "db_table": namespaced("operator_notes"),
                "indexes": [
                    models.Index(fields=["user", "-created_at"], name=namespaced("operator_notes_user_id_idx"))
                ],
            },
        ),
        # Django's foreign keys do not cascade in the database.
        migrations.RunSQL(
            f"ALTER TABLE {namespaced('operator_notes')} ADD CONSTRAINT {namespaced('operator_notes_user_id_fkey')}"
            f" FOREIGN KEY (user_id) REFERENCES {namespaced('users')} (id) ON DELETE CASCADE",
            migrations.RunSQL.noop,
        ),
    ]

"""Adds sessions in which an operator impersonates a user, the links that start them, and the resource of a session."""

import uuid

from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("tokens", "0003_linking_sessions")]

    operations = [
        migrations.AddField(model_name="session", name="impersonator_id", field=models.UUIDField(null=True)),
        migrations.AddField(model_name="session", name="impersonator_session_id", field=models.UUIDField(null=True)),
        migrations.AddField(model_name="session", name="resource", field=models.TextField(null=True)),
        migrations.CreateModel(
            name="ImpersonationLink",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("link_hash", models.TextField(unique=True)),
                ("user_id", models.UUIDField()),
                ("operator_session_id", models.UUIDField()),
                ("reason", models.TextField()),
                ("created_at", models.DateTimeField()),
            ],
            options={"db_table": namespaced("impersonation_links")},
        ),
    ]

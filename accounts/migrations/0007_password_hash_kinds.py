"""Adds the table of the kinds of stored password hashes."""

from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_failed_attempts")]

    operations = [
        migrations.CreateModel(
            name="PasswordHashKind",
            fields=[
                ("kind", models.TextField(primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField()),
            ],
            options={"db_table": namespaced("password_hash_kinds")},
        ),
    ]

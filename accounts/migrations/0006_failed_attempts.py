"""Adds the table of wrong passwords and codes per account."""

from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_unfinished_factors")]

    operations = [
        migrations.CreateModel(
            name="FailedAttempts",
            fields=[
                ("user_id", models.UUIDField(primary_key=True, serialize=False)),
                ("attempts", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={"db_table": namespaced("failed_attempts")},
        ),
        # Room in every page, so that a further failure updates its row in place.
        migrations.RunSQL(
            [f"ALTER TABLE {namespaced('failed_attempts')} SET (fillfactor = 85)"], migrations.RunSQL.noop
        ),
    ]

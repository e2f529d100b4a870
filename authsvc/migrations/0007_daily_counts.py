"""Adds the counts of events by day."""

from django.db import migrations, models

from authsvc.db.sql import namespaced


class Migration(migrations.Migration):
    dependencies = [("core", "0006_audit_by_user_and_kind")]

    operations = [
        migrations.CreateModel(
            name="DailyCount",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day", "series", "label", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateField()),
                ("series", models.TextField()),
                ("label", models.TextField(db_default="")),
                ("count", models.BigIntegerField()),
            ],
            options={"db_table": namespaced("daily_counts")},
        ),
        migrations.CreateModel(
            name="CountProgress",
            fields=[
                ("source", models.TextField(primary_key=True, serialize=False)),
                ("counted_until", models.DateTimeField()),
                ("last_id", models.UUIDField()),
                ("counted_from", models.DateTimeField(null=True)),
                ("first_id", models.UUIDField(null=True)),
            ],
            options={"db_table": namespaced("daily_counts_progress")},
        ),
    ]

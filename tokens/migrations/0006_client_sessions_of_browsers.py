"""Adds the session in which the user granted an OAuth client its session."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tokens", "0005_impersonated_sessions")]

    operations = [
        migrations.AddField(model_name="session", name="approving_session_id", field=models.UUIDField(null=True)),
    ]

"""Adds the resource for which an OAuth client requested the tokens of a session."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tokens", "0005_impersonated_sessions")]

    operations = [migrations.AddField("session", "resource", models.TextField(null=True))]

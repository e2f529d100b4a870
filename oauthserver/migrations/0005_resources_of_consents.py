"""Adds the APIs that a consent permits. A former consent permits none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("oauthserver", "0004_indexes")]

    operations = [
        migrations.AddField(model_name="oauthconsent", name="resource", field=models.TextField(null=True)),
    ]

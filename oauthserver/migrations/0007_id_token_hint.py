"""Adds the user whom the ID token in an authorization request names."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("oauthserver", "0006_dynamic_clients")]

    operations = [
        migrations.AddField(model_name="oauthauthorization", name="hinted_user_id", field=models.UUIDField(null=True)),
    ]

"""Adds the session that started a flow that links an identity, whose level is checked when the flow ends."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tokens", "0002_linking_flows")]

    operations = [
        migrations.AddField(model_name="flowstate", name="linking_session_id", field=models.UUIDField(null=True)),
    ]

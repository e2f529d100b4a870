"""Adds the position of the rows that are counted from the newest to the oldest."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("core", "0008_audit_of_impersonation")]

    operations = [
        migrations.AddField(model_name="countprogress", name="counted_from", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="countprogress", name="first_id", field=models.UUIDField(null=True)),
    ]

"""Sets the names of the audit trail in the console."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("core", "0002_audit_by_user")]

    operations = [
        migrations.AlterModelOptions(
            name="auditlogentry", options={"verbose_name": "audit entry", "verbose_name_plural": "audit entries"}
        ),
    ]
